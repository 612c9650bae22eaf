"""Plans on the wire."""

from __future__ import annotations

from msgspec import Struct

from core.protocol.documents import Todo


class Plan(Struct, frozen=True, kw_only=True):
    """`path` is workspace-relative; `body` is the Markdown after the front matter."""

    path: str
    name: str
    overview: str = ""
    body: str = ""
    todos: tuple[Todo, ...] = ()
