"""HTML pages taken apart, and whether they are safe to open."""

from __future__ import annotations

import re
from html.parser import HTMLParser

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{ 7 * 7 }}{% raw %}\u202e"
VOID = frozenset({"meta", "link", "input", "br", "img"})


class Page(HTMLParser):
    """A page taken apart: its elements, the text of each, and whether all that was opened was closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def count(self, tag: str) -> int:
        return sum(each == tag for each, _ in self.tags)


def safe(text: str) -> Page:
    """The page, when nothing in it runs but its own script and nothing is fetched."""
    page = Page(text)
    assert page.open == []
    assert (page.count("script"), page.count("style"), page.count("img"), page.count("iframe")) == (1, 1, 0, 0)
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name in ("style", "src", "srcset")], tag
        if "href" in attributes:
            assert re.fullmatch(r"#[\w-]+|data:,", attributes["href"] or ""), (tag, attributes)
    return page
