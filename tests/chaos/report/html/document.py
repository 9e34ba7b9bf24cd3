"""What a page holds, read without a browser."""

from __future__ import annotations

from html.parser import HTMLParser


class Document(HTMLParser):
    """Tags, anchors and link targets of a page, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.anchors: list[str] = []
        self.links: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            self.attributes.append((tag, name, value))
            if name == "id" and value is not None:
                self.anchors.append(value)
            if tag == "a" and name == "href" and value is not None:
                self.links.append(value)
