"""What was seen is not new, for as long as it may be sent again."""

from service.shells.slack.once import MOST_REMEMBERED, REMEMBERED_S, Seen


def test_marks_are_new_once() -> None:
    """Any mark that was seen makes a request an old one."""
    seen = Seen()
    assert seen.is_new(["event 1", "signature a"])
    assert not seen.is_new(["event 1", "signature b"])
    assert not seen.is_new(["signature b"])
    assert seen.is_new(["event 2"])


def test_marks_are_forgotten() -> None:
    """Time and number bound what is kept."""
    now_s = 0.0
    seen = Seen(clock=lambda: now_s)
    assert seen.is_new(["first"])
    now_s = REMEMBERED_S
    assert not seen.is_new(["first"])
    now_s += REMEMBERED_S + 1
    assert seen.is_new(["first"])
    assert all(seen.is_new([str(number)]) for number in range(MOST_REMEMBERED + 1))
    assert seen.is_new(["first"])
