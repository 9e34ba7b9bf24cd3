"""A hook of mkdocs: a page's link to a file outside docs/ is shown as that file's path.

On a code host such a link works as it is; the site holds docs/ alone and knows no address of the repository.
"""

import posixpath
import re
from typing import Any

LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)#\s]+)(?:#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """What mkdocs calls with the text of each page."""
    folder = posixpath.dirname(posixpath.join("docs", page.file.src_uri))
    return LINK.sub(lambda found: shown(found, folder), markdown)


def shown(found: re.Match[str], folder: str) -> str:
    """The link itself where it stays in docs/, else its text and the path from the repository's root."""
    target = posixpath.normpath(posixpath.join(folder, found[2]))
    if target.startswith("docs/"):
        return found[0]
    name = posixpath.basename(target)
    return f"`{target}`" if found[1].strip("`") == name else f"{found[1]} (`{target}`)"
