"""The server as its routes have it: its engines, and the check of what a request was granted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from litestar.params import Dependency
from msgspec import Struct

from core.errors import CommandRejected
from core.protocol.client import Client
from core.protocol.queries import AnyAnswer, AnyQuery, RefusedAnswer
from core.transports.engines import Engines
from core.transports.http.access import Grant, HttpRefused
from core.transports.http.guard import get_grant

READS: Final = {"needs": Grant.READ}
DRIVES: Final = {"needs": Grant.DRIVE}
APPROVES: Final = {"needs": Grant.APPROVE}
PUBLIC: Final = {"needs": Grant.NONE}


class HttpService(Struct, frozen=True, eq=False):
    """`directory`: the workspace of requests that name none."""

    engines: Engines
    directory: Path

    async def ask(self, client: Client, query: AnyQuery) -> AnyAnswer:
        """Return the answer to a question. Raises `CommandRejected` if it can't be answered."""
        answer = await client.query(query)
        if isinstance(answer, RefusedAnswer):
            raise CommandRejected(answer.message, hint=answer.hint, code=answer.code)
        return answer


# How a route asks for it: `async def get_x(service: Served)`.
Served = Annotated[HttpService, Dependency(skip_validation=True)]


def check_grant(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Raise `HttpRefused` unless the token grants what the route needs; one that says nothing needs all."""
    require_grant(connection.scope, handler.opt.get("needs", Grant.APPROVE))


def require_grant(scope: Any, needed: Grant) -> None:
    """Raise `HttpRefused` unless a request was granted that much."""
    if get_grant(scope) < needed:
        word = needed.name.lower()
        hint = f"Send the `{word}` token of the server."
        raise HttpRefused(403, "grant_missing", f"this needs a token that may {word}.", hint=hint)
