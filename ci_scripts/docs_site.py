"""What MkDocs asks while it builds docs/ as a site (`hooks` in mkdocs.yml)."""

from __future__ import annotations

import re
from posixpath import dirname, join, normpath
from typing import Any

_LINK = re.compile(r"\]\((?P<path>[^)#:\s]+)(?P<anchor>#[^)]*)?\)")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Let links to files of the repository that are no page lead to the repository."""

    def leading(link: re.Match[str]) -> str:
        path = normpath(join("docs", dirname(page.file.src_uri), link["path"]))
        if path.startswith("docs/"):
            return link[0]
        return f"]({config.repo_url}/blob/HEAD/{path}{link['anchor'] or ''})"

    return _LINK.sub(leading, markdown)
