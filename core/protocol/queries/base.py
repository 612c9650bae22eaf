"""The base of all queries and of their answers."""

from __future__ import annotations

from msgspec import Struct

from core.ids import OptionalId


class Query(Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all queries. `session` may be "" where the answer does not depend on one."""

    session: OptionalId = ""


class Answer(Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all answers."""


class RefusedAnswer(Answer, frozen=True, kw_only=True, tag="refused"):
    """The query can't be answered."""

    code: str
    message: str
    hint: str = ""
