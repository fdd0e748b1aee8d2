"""Reads a page back: elements, text, and whether every tag is closed in its turn."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = frozenset({"br", "col", "hr", "img", "input", "link", "meta", "wbr"})


@dataclass
class Element:
    tag: str
    attributes: dict[str, str | None] = field(default_factory=dict)
    children: list[Element | str] = field(default_factory=list)

    def all(self, tag: str | None = None, **attributes: str) -> Iterator[Element]:
        for child in self.children:
            if isinstance(child, Element):
                wanted = {k.rstrip("_").replace("_", "-"): v for k, v in attributes.items()}
                same = all(child.attributes.get(k) == v for k, v in wanted.items())
                if tag in (None, child.tag) and same:
                    yield child
                yield from child.all(tag, **attributes)

    def one(self, tag: str | None = None, **attributes: str) -> Element:
        found = list(self.all(tag, **attributes))
        assert len(found) == 1, f"{len(found)} elements {tag} {attributes}"
        return found[0]

    @property
    def text(self) -> str:
        """The text as read: runs of white space are one space."""
        return " ".join(self.raw.replace("\xa0", " ").split())

    @property
    def raw(self) -> str:
        return "".join(c if isinstance(c, str) else c.raw for c in self.children)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("")
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"an attribute twice in <{tag}>: {names}"
        element = Element(tag, dict(attrs))
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        closed = self.open.pop()
        assert closed.tag == tag, f"</{tag}> closes <{closed.tag}>"

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def read(page: str) -> Element:
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert [element.tag for element in reader.open] == [""]
    return reader.root


# Words of programs, which no figure may read as.
_WRONG = re.compile(
    r"\b(NaN|nan|undefined|null|None|Infinity|inf|Undefined)\b|(?<![\w.,%])[-\u2212]0(\.0*)?(?![\d.])"
)


def said(page: Element) -> str:
    """Return what the page says, without its scripts and code."""

    def words(element: Element) -> str:
        if element.tag in {"script", "style", "code", "pre", "bdi"}:
            return ""
        return " ".join(c if isinstance(c, str) else words(c) for c in element.children)

    return " ".join(words(page).split())


def wrong_figures(page: Element) -> list[str]:
    """Return where a figure reads as a word of a program."""
    text = said(page)
    found = [text[max(0, m.start() - 30) : m.end() + 10] for m in _WRONG.finditer(text)]
    for element in page.all():
        for name, value in element.attributes.items():
            if name not in {"content", "href", "id"} and value and _WRONG.search(value):
                found.append(f"<{element.tag} {name}={value[:60]}>")
    return found
