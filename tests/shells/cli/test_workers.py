"""Many requests at once, answered by several processes."""

import io
import json
import os
import signal
import subprocess
from collections.abc import Sequence

from service.shells.cli.answers import MANY_LINES, answers
from service.shells.cli.lines import BATCH_LINES, Line, answer, batches
from service.shells.cli.workers import Remaining, Workers
from tests.servers import COMMAND

MODELS = ("llama-3.2-1b:Q4_K_M", "nothing", "qwen3-0.6b:Q4_K_M", "llama-3.2-3b:Q4_K_M")
GPUS = ("rtx-3090", "2x rtx-3090", "rtx-3060-12gb")


def question(number: int) -> str:
    """One of many questions, of which one in four names no model that there is."""
    return json.dumps(
        {
            "model": MODELS[number % len(MODELS)],
            "rig": {"gpus": [GPUS[number % len(GPUS)]]},
            "workload": {"context_tokens": 512 * (1 + number % 32)},
        }
    )


QUESTIONS = [question(number) for number in range(MANY_LINES + 60)]


def stream(lines: list[str]) -> io.BytesIO:
    return io.BytesIO("\n".join(lines).encode())


def test_several_processes_give_the_answers_of_one() -> None:
    """Blank lines, problems and order included."""
    lines = ["", *QUESTIONS, "{", "  ", *QUESTIONS[:3]]
    assert list(answers(stream(lines), processes=3)) == list(answers(stream(lines), processes=1))


def test_lines_of_a_process_that_ends_early_are_answered() -> None:
    """A process that is killed with lines in hand loses none of them."""
    lines = [line for batch in batches(stream(QUESTIONS)) for line in batch]
    workers = Workers(2)
    try:
        answered = workers.answers(lines)
        found = [next(answered)]
        for process in list(workers._processes.values()):
            process.kill()
        found += answered
    finally:
        workers.close()
    assert found == [answer(line) for line in lines]


def test_an_interrupt_ends_all_processes() -> None:
    """Ctrl-C stops at once, without a traceback, and leaves nobody who holds the output open."""
    # who was started in the background ignores interrupts, and so would everybody started from here
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(
        [COMMAND, "plan", "--requests", "-"],
        stdin=subprocess.PIPE,  # open until the end, so that there is always more to come
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(line + "\n" for line in QUESTIONS).encode())
        process.stdin.flush()
        assert process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        said, complained = process.communicate(timeout=30)
    assert process.returncode != 0
    assert said.count(b"\n") < len(QUESTIONS) - 1
    assert b"Traceback" not in complained


def test_a_batch_is_what_is_there() -> None:
    """Lines keep their numbers over batches, the last one needs no end, and blank ones are no lines."""
    text = b"\n".join([b"one", b"", b"three", *[b"more"] * BATCH_LINES, b"last"])
    found = list(batches(io.BytesIO(text)))
    numbers = [line.number for batch in found for line in batch]
    assert numbers == [1, *range(3, BATCH_LINES + 5)]
    assert [line.text for line in found[0][:2]] == [b"one", b"three"]
    assert found[-1][-1].text == b"last"
    assert max(map(len, found)) <= BATCH_LINES


def lines_about(**counts: int) -> list[Line]:
    """So many lines about each model, one model after the other."""
    models = [model for model, count in counts.items() for _ in range(count)]
    return [Line(number, json.dumps({"model": model}).encode()) for number, model in enumerate(models, 1)]


def models_of(lines: Sequence[Line]) -> set[str]:
    return {json.loads(line.text)["model"] for line in lines}


def test_a_process_stays_with_its_model() -> None:
    """The model with most lines is begun first, and nobody else takes of it while there is another."""
    remaining = Remaining(lines_about(few=10, most=30, some=20))
    taken = {process: models_of(remaining.take(process)) for process in ("first", "second")}
    assert taken == {"first": {"most"}, "second": {"some"}}
    assert models_of(remaining.take("second")) == {"some"}
    assert models_of(remaining.take("first")) == {"most"}


def test_who_has_nothing_left_helps() -> None:
    """Every line is taken once, and the last ones of a model are divided."""
    lines = lines_about(one=40)
    remaining, shares, found = Remaining(lines), list[int](), list[Line]()
    while remaining:
        group = remaining.take(len(shares) % 2)
        shares.append(len(group))
        found += group
    assert found == lines
    assert shares[-2:] == [1, 1]
    assert remaining.take(0) == ()
