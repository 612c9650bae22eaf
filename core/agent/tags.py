"""The tags that order what a model is sent. Foreign text within them can't close them or open one of ours."""

from __future__ import annotations

import re

_OURS = (
    "user_info|now|project_layout|open_and_recently_viewed_files|git_status|rules?|workspace_rules|attached_files?|file|"
    "user_query|system_reminder"
)
_TAG = re.compile(rf"<(?=/?(?:{_OURS})\b)", re.IGNORECASE)


def tagged(name: str, text: str) -> str:
    """`text` between the tags of `name`."""
    return f"<{name}>\n{text}\n</{name}>"


def as_data(text: str) -> str:
    """Foreign text that holds none of our tags any more: each one's bracket is written `&lt;`."""
    return _TAG.sub("&lt;", text)


def attribute(value: str) -> str:
    """Foreign text for between quotes in a tag."""
    return "".join("�" if ord(each) < 32 else each for each in value).replace('"', "&quot;").replace("<", "&lt;")
