"""What an HTML page is made of, for tests of pages."""

from __future__ import annotations

import re
from html.parser import HTMLParser


class Outline(HTMLParser):
    """Collects tags with their attributes, and fails on tags that are closed out of order."""

    VOID = {"meta", "input", "br", "path", "use", "rect", "stop", "line"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def outline(text: str) -> Outline:
    parsed = Outline()
    parsed.feed(text)
    assert parsed.open == []
    return parsed


def fetches(text: str) -> list[str]:
    """What a page would load from elsewhere; data within it and links to its own parts are not."""
    found = [
        value
        for tag, attributes in outline(text).tags
        for name in ("src", "href", "xlink:href")
        if not (value := attributes.get(name) or "#").startswith(("#", "data:"))
    ]
    return found + re.findall(r"url\((?!#).*?\)|@import", text)
