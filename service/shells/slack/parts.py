"""Parts of Block Kit, each within Slack's limits; what is cut says so.

Source: Slack's reference of blocks and block elements (docs.slack.dev/reference/block-kit), 2026-11.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

Block: TypeAlias = dict[str, Any]

MOST_BLOCKS: Final = 50
MOST_TEXT: Final = 3000
MOST_HEADER: Final = 150
MOST_BUTTON_TEXT: Final = 75
MOST_VALUE: Final = 2000
MOST_ADDRESS: Final = 3000
MOST_BUTTONS: Final = 25
BUTTONS_OF_A_ROW: Final = 5
CUT: Final = " … (cut; all of it is on the page)"

_BROKEN_ENTITY = re.compile(r"&[a-z]{0,3}$")


def escaped(text: str) -> str:
    """Text that Slack shows as it is."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def cut(text: str, most: int, mark: str = CUT) -> str:
    """At most `most` characters of escaped text, with a mark where some are missing."""
    if len(text) <= most:
        return text
    return _BROKEN_ENTITY.sub("", text[: most - len(mark)]) + mark


def header(text: str) -> Block:
    """A headline."""
    return {"type": "header", "text": {"type": "plain_text", "text": cut(text, MOST_HEADER, "…"), "emoji": False}}


def section(markdown: str) -> Block:
    """A paragraph of escaped text with mark-up."""
    return {"type": "section", "text": {"type": "mrkdwn", "text": cut(markdown, MOST_TEXT)}}


def code(text: str, title: str = "") -> Block:
    """Text in a fixed-width font, as it is, under a title."""
    fence, lead = "```", f"{escaped(title)}\n" if title else ""
    inside = escaped(text).replace(fence, "'''")
    return section(f"{lead}{fence}{cut(inside, MOST_TEXT - len(lead) - 2 * len(fence))}{fence}")


def remark(markdown: str) -> Block:
    """A line in small type."""
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": cut(markdown, MOST_TEXT)}]}


def button(text: str, action_id: str, value: str) -> Block | None:
    """A button that sends `value` back, None where that is longer than Slack keeps."""
    return None if len(value) > MOST_VALUE else _button(text, action_id) | {"value": value}


def link(text: str, action_id: str, address: str) -> Block | None:
    """A button that opens an address, None where that is longer than Slack keeps."""
    return None if len(address) > MOST_ADDRESS else _button(text, action_id) | {"url": address}


def _button(text: str, action_id: str) -> Block:
    label = {"type": "plain_text", "text": cut(text, MOST_BUTTON_TEXT, "…"), "emoji": True}
    return {"type": "button", "text": label, "action_id": action_id}


def rows(buttons: Sequence[Block | None]) -> list[Block]:
    """Buttons in rows of five; says so where some could not be made or are too many."""
    made = [each for each in buttons if each is not None]
    shown = made[:MOST_BUTTONS]
    blocks: list[Block] = [
        {"type": "actions", "elements": shown[first : first + BUTTONS_OF_A_ROW]}
        for first in range(0, len(shown), BUTTONS_OF_A_ROW)
    ]
    missing = len(buttons) - len(shown)
    return [*blocks, remark(f"{missing} buttons are left out: Slack has no room for them.")] if missing else blocks


def within(blocks: Sequence[Block], most: int = MOST_BLOCKS) -> list[Block]:
    """At most as many blocks as a message may have; says so where some are left out."""
    if len(blocks) <= most:
        return list(blocks)
    left_out = len(blocks) - most + 1
    return [*blocks[: most - 1], remark(f"{left_out} parts of the answer are left out: Slack has no room for them.")]
