"""Queries (clients -> core): questions without an effect, and their answers. They are registered by their
class alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Union

from core.protocol.base import Answer as Answer
from core.protocol.base import Query
from core.protocol.queries.changes import *
from core.protocol.queries.extensions import *
from core.protocol.queries.files import *
from core.protocol.queries.sessions import *
from core.protocol.queries.settings import *
from core.records import list_leaves


class RefusedAnswer(Answer, frozen=True, kw_only=True, tag="refused"):
    """The query can't be answered."""

    code: str
    message: str
    hint: str = ""


if TYPE_CHECKING:
    AnyQuery = Query
    AnyAnswer = Answer
else:  # Every concrete query and answer can be decoded.
    AnyQuery = Union[(*list_leaves(Query),)]
    AnyAnswer = Union[(*list_leaves(Answer),)]
