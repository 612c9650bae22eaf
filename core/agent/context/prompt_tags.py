"""The tags around what a model is sent. Foreign text within them can't close them or open one of ours."""

from __future__ import annotations

import re

_OWN_TAGS = (
    "user_info|now|project_layout|open_and_recently_viewed_files|git_status|rules?|workspace_rules|attached_files?|file|"
    "user_query|system_reminder"
)
_TAG = re.compile(rf"<(?=/?(?:{_OWN_TAGS})\b)", re.IGNORECASE)


def wrap_tag(name: str, text: str) -> str:
    """Wrap `text` in the tags of `name`."""
    return f"<{name}>\n{text}\n</{name}>"


def escape_tags(text: str) -> str:
    """Escape foreign text so that it holds none of our tags: each one's bracket is written `&lt;`."""
    return _TAG.sub("&lt;", text)


def escape_attribute(value: str) -> str:
    """Escape foreign text for between quotes in a tag."""
    return "".join("�" if ord(each) < 32 else each for each in value).replace('"', "&quot;").replace("<", "&lt;")
