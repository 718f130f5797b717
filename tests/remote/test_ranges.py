"""Headers are read by growing ranges, from hosts that behave and hosts that do not."""

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import httpx2
import pytest

from service.core.problems import PlanProblem, UnknownModel
from service.core.units import MIB
from service.gguf.reader import read_header
from service.remote.fetching import Fetched, fetch
from service.remote.gguf_files import FileProgress
from service.remote.problems import (
    ModelHostTimeout,
    ModelHostUnavailable,
    Unauthorized,
    UnreadableRemoteModel,
)
from service.remote.references import FileAddress
from tests.remote.files import MODEL, VOCABULARY
from tests.remote.model_host import Answer, Exchange, ModelHost, failing, ranged, redirect


def read(host: ModelHost, path: str = "/x.gguf", **access: Any) -> str:
    """Id of the model at a path."""
    found = fetch(host.hosts(**access), FileAddress(url=httpx2.URL(host.url + path)))
    assert isinstance(found, Fetched)
    return found.content.id


def refuse(host: ModelHost, problem: type[PlanProblem], answer: Answer, **access: Any) -> str:
    """The detail of the problem that an answer leads to."""
    host.answers["/x.gguf"] = answer
    with pytest.raises(problem) as refused:
        read(host, **access)
    return refused.value.detail


def test_a_small_header_takes_one_request_and_no_weights(host: ModelHost) -> None:
    """Of a file of 40 GB one mebibyte is asked for."""
    host.answers["/x.gguf"] = ranged(MODEL, 40_000_000_000)
    assert read(host) == read_header(MODEL).id
    assert [request.headers["range"] for request in host.requests] == ["bytes=0-1048575"]
    assert host.sent_bytes <= 1 * MIB


def test_a_long_vocabulary_takes_growing_ranges(host: ModelHost) -> None:
    """One, four, sixteen mebibytes, one after the other, and the last is given up once the table is complete."""
    host.answers["/x.gguf"] = ranged(VOCABULARY, 40_000_000_000)
    assert read(host) == read_header(VOCABULARY).id
    assert [request.headers["range"] for request in host.requests] == [
        f"bytes=0-{MIB - 1}",
        f"bytes={MIB}-{5 * MIB - 1}",
        f"bytes={5 * MIB}-{21 * MIB - 1}",
    ]
    assert host.sent_bytes < len(VOCABULARY) + 8 * MIB


def test_encodings_are_not_asked_for(host: ModelHost) -> None:
    """Ranges are those of the file itself."""
    host.answers["/x.gguf"] = ranged(MODEL)
    read(host)
    assert host.requests[0].headers["accept-encoding"] == "identity"
    assert "authorization" not in host.requests[0].headers


def test_progress_is_told(host: ModelHost) -> None:
    """Who waits learns what is read of what, and the last word is past the header."""
    host.answers["/x.gguf"] = ranged(VOCABULARY, 40_000_000_000)
    told: list[FileProgress] = []
    fetch(host.hosts(), FileAddress(url=httpx2.URL(f"{host.url}/x.gguf")), progress=told.append)
    assert {step.file for step in told} == {"x.gguf"}
    assert {step.file_bytes for step in told} == {40_000_000_000}
    assert [step.read_bytes for step in told] == sorted(step.read_bytes for step in told)
    assert told[-1].read_bytes >= len(VOCABULARY)


def test_a_short_answer_to_a_range_is_continued(host: ModelHost) -> None:
    """A host may send less than was asked for; the rest is asked for next."""

    def answer(exchange: Exchange) -> None:
        assert exchange.range is not None
        first, last = exchange.range
        last = min(first + 499, last)
        part = MODEL[first : last + 1]
        exchange.answer(206, part, {"content-range": f"bytes {first}-{first + len(part) - 1}/{len(MODEL)}"})

    host.answers["/x.gguf"] = answer
    assert read(host) == read_header(MODEL).id
    assert len(host.requests) == -(-2964 // 500)


def test_a_host_without_ranges_is_refused_with_advice(host: ModelHost) -> None:
    """The whole file is never downloaded."""

    def answer(exchange: Exchange) -> None:
        exchange.head(200, {"content-length": "40000000000"})
        exchange.body(MODEL + bytes(64 * MIB))

    detail = refuse(host, UnreadableRemoteModel, answer)
    assert "does not serve byte ranges" in detail
    assert "upload its first megabytes" in detail
    assert len(host.requests) == 1
    assert host.sent_bytes < 16 * MIB


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate, gzip"])
def test_an_encoded_answer_is_refused_undecoded(host: ModelHost, encoding: str) -> None:
    """What nobody asked to be compressed is not decompressed."""
    detail = refuse(host, UnreadableRemoteModel, ranged(MODEL, len(MODEL), **{"content-encoding": encoding}))
    assert f"sends {encoding} though" in detail


WRONG_RANGES = {
    "none": None,
    "another unit": "items 0-2999/3012",
    "nonsense": "bytes zero-ten/3012",
    "unsatisfied": "bytes */3012",
    "another start": "bytes 1-3000/3012",
    "past the end": "bytes 0-3012/3012",
    "more than asked for": f"bytes 0-{2 * MIB}/{4 * MIB}",
    "backwards": "bytes 0--1/3012",
    "a number of hundred digits": f"bytes 0-{'9' * 100}/3012",
    "less than is sent": "bytes 0-99/3012",
    "more than is sent": "bytes 0-9999/10000",
}


@pytest.mark.parametrize("content_range", WRONG_RANGES.values(), ids=WRONG_RANGES.keys())
def test_a_range_that_contradicts_itself_is_refused(host: ModelHost, content_range: str | None) -> None:
    """The bytes that come must be those that were asked for, and as many as the host says."""
    headers = {} if content_range is None else {"content-range": content_range}
    detail = refuse(host, UnreadableRemoteModel, lambda exchange: exchange.answer(206, MODEL, headers))
    assert "Download the file and import it" in detail


def test_more_bytes_than_announced_are_refused(host: ModelHost) -> None:
    """Without a length the range still says where to stop."""

    def answer(exchange: Exchange) -> None:
        exchange.head(206, {"content-range": f"bytes 0-99/{len(MODEL)}", "connection": "close"})
        exchange.body(MODEL)

    assert "more bytes than it announced" in refuse(host, UnreadableRemoteModel, answer)


def truncating(after_bytes: int) -> Answer:
    """Announce the whole range and hang up early."""

    def answer(exchange: Exchange) -> None:
        assert exchange.range is not None
        first, _ = exchange.range
        rest = MODEL[first:]
        headers = {"content-range": f"bytes {first}-{len(MODEL) - 1}/{len(MODEL)}", "content-length": str(len(rest))}
        exchange.head(206, headers)
        exchange.body(rest[:after_bytes])
        exchange.handler.close_connection = True

    return answer


def test_a_truncated_answer_is_continued_where_it_ended(host: ModelHost) -> None:
    """What came is kept and the rest is asked for."""
    host.answers["/x.gguf"] = truncating(1000)
    assert read(host) == read_header(MODEL).id
    assert [request.range and request.range[0] for request in host.requests] == [0, 1000, 2000]


def test_a_host_that_always_hangs_up_is_unavailable(host: ModelHost) -> None:
    """After a few attempts without a byte it is over."""
    assert "failed" in refuse(host, ModelHostUnavailable, truncating(0))
    assert len(host.requests) == 4


def test_a_file_that_ends_inside_its_header_is_refused(host: ModelHost) -> None:
    """A download that was cut off at the host is named as what it is."""
    assert "more bytes are needed" in refuse(host, UnreadableRemoteModel, ranged(MODEL[:1500]))


def test_a_file_shorter_than_its_tensors_is_refused(host: ModelHost) -> None:
    """The size that the host states must hold the data that the header describes."""
    detail = refuse(host, UnreadableRemoteModel, ranged(MODEL, len(MODEL) - 1))
    assert "its tensors end at byte 3,012 but the file has 3,011 bytes" in detail


def test_an_empty_file_is_refused(host: ModelHost) -> None:
    """There is no first byte to ask for."""
    assert "shorter than a GGUF header" in refuse(host, UnreadableRemoteModel, ranged(b""))


def test_a_page_instead_of_a_file_is_refused(host: ModelHost) -> None:
    """An address of a web page is no model."""
    assert "begins with b'<!do'" in refuse(host, UnreadableRemoteModel, ranged(b"<!doctype html>" * 10))


def test_a_file_that_changes_meanwhile_is_refused(host: ModelHost) -> None:
    """Ranges of two versions never make one header."""
    for changed in (ranged(VOCABULARY, 40_000_000_001), ranged(VOCABULARY, 40_000_000_000, etag='"2"')):
        first = ranged(VOCABULARY, 40_000_000_000, etag='"1"')

        def answer(exchange: Exchange, first: Answer = first, changed: Answer = changed) -> None:
            (first if exchange.range and exchange.range[0] == 0 else changed)(exchange)

        assert "changed while it was read" in refuse(host, UnreadableRemoteModel, answer)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_passing_failure_is_tried_again(host: ModelHost, status: int) -> None:
    """A busy host gets a little time."""
    host.answers["/x.gguf"] = failing(2, status, ranged(MODEL))
    assert read(host) == read_header(MODEL).id
    assert len(host.requests) == 3


def test_a_lasting_failure_is_given_up(host: ModelHost) -> None:
    """Four attempts, then the problem."""
    assert "status 503" in refuse(host, ModelHostUnavailable, failing(99, 503, ranged(MODEL)))
    assert len(host.requests) == 4


def test_waits_grow(host: ModelHost) -> None:
    """Each attempt comes later than the one before."""
    moments: list[float] = []

    def answer(exchange: Exchange) -> None:
        moments.append(time.monotonic())
        exchange.answer(503)

    refuse(host, ModelHostUnavailable, answer, first_wait_s=0.05)
    waits = [later - earlier for earlier, later in pairwise(moments)]
    assert waits[0] >= 0.05
    assert waits[2] >= 0.2


def test_a_host_says_when_to_come_back(host: ModelHost) -> None:
    """Retry-After takes the place of the usual wait, and is not waited for beyond the deadline."""
    host.answers["/x.gguf"] = failing(1, 429, ranged(MODEL), **{"retry-after": "1"})
    started = time.monotonic()
    read(host)
    assert time.monotonic() - started >= 1
    started = time.monotonic()
    refuse(host, ModelHostUnavailable, failing(1, 429, ranged(MODEL), **{"retry-after": "3600"}))
    assert time.monotonic() - started < 1


STATUSES: dict[int, tuple[type[PlanProblem], str]] = {
    400: (ModelHostUnavailable, "answers with status 400"),
    401: (Unauthorized, "Send an Authorization that opens it"),
    403: (Unauthorized, "Send an Authorization that opens it"),
    404: (UnknownModel, "is not there"),
    410: (UnknownModel, "is not there"),
    418: (ModelHostUnavailable, "answers with status 418"),
}


@pytest.mark.parametrize("status", STATUSES)
def test_a_lasting_status_is_not_tried_again(host: ModelHost, status: int) -> None:
    """What asking again cannot change is said at once."""
    problem, said = STATUSES[status]
    assert said in refuse(host, problem, lambda exchange: exchange.answer(status))
    assert len(host.requests) == 1


def test_a_host_that_says_nothing_times_out(host: ModelHost) -> None:
    """Silence ends with the deadline."""
    started = time.monotonic()
    detail = refuse(host, ModelHostTimeout, lambda _: time.sleep(1.5), duration_s=0.5)
    assert "did not answer in time" in detail
    assert time.monotonic() - started < 1.4


def trickling(send: Callable[[Exchange, bytes], object]) -> Answer:
    """Send an answer a byte at a time, for ever."""

    def answer(exchange: Exchange) -> None:
        for byte in b"HTTP/1.1 206 Partial Content\r\ncontent-range: bytes 0-99999/99999999\r\n" + b"a" * 100:
            send(exchange, bytes([byte]))
            time.sleep(0.02)

    return answer


def test_a_host_that_trickles_its_headers_times_out(host: ModelHost) -> None:
    """A byte now and then does not extend the deadline, not even before the body."""
    started = time.monotonic()
    refuse(host, ModelHostTimeout, trickling(lambda exchange, byte: exchange.handler.wfile.write(byte)), duration_s=0.5)
    assert time.monotonic() - started < 1.4


def test_a_host_that_trickles_its_body_times_out(host: ModelHost) -> None:
    """The deadline is one for all bytes together."""

    def answer(exchange: Exchange) -> None:
        exchange.head(206, {"content-range": f"bytes 0-2999/{len(MODEL)}", "content-length": "3000"})
        for byte in MODEL[:200]:
            exchange.body(bytes([byte]))
            time.sleep(0.02)

    started = time.monotonic()
    refuse(host, ModelHostTimeout, answer, duration_s=0.5)
    assert time.monotonic() - started < 1.4


def test_a_throttled_host_is_read_to_the_end(host: ModelHost) -> None:
    """Slow is no failure while there is time."""

    def answer(exchange: Exchange) -> None:
        assert exchange.range is not None
        exchange.head(
            206, {"content-range": f"bytes 0-{len(MODEL) - 1}/{len(MODEL)}", "content-length": str(len(MODEL))}
        )
        for start in range(0, len(MODEL), 300):
            exchange.body(MODEL[start : start + 300])
            time.sleep(0.02)

    host.answers["/x.gguf"] = answer
    assert read(host) == read_header(MODEL).id


def test_nobody_listens() -> None:
    """A port that nothing listens on is a host that cannot be reached."""
    closed = ModelHost(url="http://127.0.0.1:9")
    with pytest.raises(ModelHostUnavailable, match=r"The connection to 127\.0\.0\.1 failed"):
        read(closed)


def test_an_expired_address_of_storage_is_left_for_the_stated_one(host: ModelHost) -> None:
    """Ranges after the first go to where redirects led, and back to the start once that is refused."""
    storage = ranged(VOCABULARY, 40_000_000_000)
    uses: list[str] = []

    def signed(exchange: Exchange) -> None:
        uses.append(exchange.path)
        if exchange.path.endswith("=1") and len(uses) > 1:
            exchange.answer(403)
        else:
            storage(exchange)

    def stated(exchange: Exchange) -> None:
        redirect(f"/storage?signature={len(host.requests)}")(exchange)

    host.answers |= {"/x.gguf": stated, "/storage": signed}
    assert read(host) == read_header(VOCABULARY).id
    assert uses[:2] == ["/storage?signature=1"] * 2
    assert uses[2] == uses[3] == "/storage?signature=4"
