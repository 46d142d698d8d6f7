"""Reads a page as a browser would, without one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "input", "hr", "col"}
REACHING_OUT = {"src", "href", "action", "data", "srcset", "poster", "background"}


@dataclass
class PageRead:
    """What stands in it."""

    text: str = ""
    """What is shown, without programs and styles."""
    tags: Counter[str] = field(default_factory=Counter)
    attributes: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    ids: Counter[str] = field(default_factory=Counter)
    unbalanced: list[str] = field(default_factory=list)

    def of(self, tag: str, **wanted: str) -> list[dict[str, str]]:
        """The attributes of each such element; of `class`, one of its words."""
        return [
            found
            for name, found in self.attributes
            if name == tag
            and all(
                value in found.get("class", "").split() if key == "cls" else found.get(key) == value
                for key, value in wanted.items()
            )
        ]

    @property
    def reaches_out(self) -> list[str]:
        """What would be fetched: addresses that are neither within the page nor part of it."""
        return [
            value
            for _, found in self.attributes
            for key, value in found.items()
            if key in REACHING_OUT and not value.startswith(("#", "data:"))
        ]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = PageRead()
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.page.tags[tag] += 1
        self.page.attributes.append((tag, found))
        if "id" in found:
            self.page.ids[found["id"]] += 1
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.page.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] not in ("script", "style"):
            self.page.text += data


def read_page(text: str) -> PageRead:
    reader = _Reader()
    reader.feed(text)
    reader.close()
    reader.page.text = " ".join(reader.page.text.split())
    return reader.page


def assert_sound(page: PageRead) -> None:
    """What holds of every page."""
    assert page.unbalanced == []
    assert [one for one, count in page.ids.items() if count > 1] == []
    assert page.reaches_out == []
    assert page.tags["h1"] == 1
    (policy,) = page.of("meta", **{"http-equiv": "Content-Security-Policy"})
    assert policy["content"].startswith("default-src 'none'")
    labels = {found["aria-labelledby"] for _, found in page.attributes if "aria-labelledby" in found}
    assert labels <= set(page.ids)
