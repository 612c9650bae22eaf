"""Opening tags as models write them: attributes in any order, with double, single or no quotes, with entities."""

from __future__ import annotations

import html
import re

_ATTRIBUTE = re.compile(r"""([A-Za-z_][\w:-]*)\s*=\s*(?:"([^"]*)"|'([^']*)'|“([^”]*)”|([^\s"'>]+))""")


def parse_attributes(text: str) -> dict[str, str]:
    """Parse attributes: names in lower case, values with entities resolved."""
    matches = _ATTRIBUTE.finditer(text)
    return {match[1].lower(): html.unescape(match[2] or match[3] or match[4] or match[5] or "") for match in matches}


def parse_open_tag(row: str, tag: str) -> dict[str, str] | None:
    """The attributes of the last tag of this name that the row opens; None when it opens none."""
    matches = re.findall(rf"<{re.escape(tag)}((?:\s[^<>]*)?)>", row, re.IGNORECASE)
    return parse_attributes(matches[-1]) if matches else None


def has_closing_tag(row: str, tag: str) -> bool:
    """True if the row closes a tag of this name."""
    return re.search(rf"</{re.escape(tag)}\s*>", row, re.IGNORECASE) is not None
