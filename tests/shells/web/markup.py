"""Pages as documents, read with the standard library."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = {"input", "link", "meta", "br", "hr", "img"}


@dataclass(slots=True)
class Element:
    """One element with its attributes, the text right inside it and the elements inside."""

    name: str
    attributes: dict[str, str]
    inside: list["Element"] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text inside, in order of the words and then of the elements."""
        return " ".join(" ".join([*self.words, *(element.text for element in self.inside)]).split())

    def all(self, tag: str, /, **attributes: str) -> list["Element"]:
        """Every element inside of that name and with these attributes; an underscore stands for a hyphen."""
        wanted = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
        found = [
            element for element in self.inside if element.name == tag and wanted.items() <= element.attributes.items()
        ]
        return found + [each for element in self.inside for each in element.all(tag, **attributes)]

    def one(self, tag: str, /, **attributes: str) -> "Element":
        """The only such element."""
        (found,) = self.all(tag, **attributes)
        return found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Element("document", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].inside.append(element)
        if tag not in _VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].inside.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].name == tag, f"<{self.open[-1].name}> is closed by </{tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].words.append(data)


def document(html: str) -> Element:
    """Read a page; every element must be closed."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert len(reader.open) == 1, f"<{reader.open[-1].name}> is never closed"
    return reader.open[0]
