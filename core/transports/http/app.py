"""The application: every route by its module, what each needs, and the one guard before them.

A group of routes is a module with `HANDLERS`; each handler says `opt=READS`, `DRIVES`, `APPROVES` or `PUBLIC`. Those of
the page (`web`) are there where the user asked for it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

from litestar import Litestar
from litestar.di import Provide

from core.transports.http.access import AccessRules
from core.transports.http.agents.routes import HANDLERS as AGENT_HANDLERS
from core.transports.http.chat.routes import HANDLERS as CHAT_HANDLERS
from core.transports.http.guard import Application, Guard
from core.transports.http.openapi import build_route, format_document
from core.transports.http.problems import ANSWERS
from core.transports.http.service import HttpService, check_grant
from core.transports.http.sessions.routes import HANDLERS as SESSION_HANDLERS
from core.transports.http.web.routes import HANDLERS as WEB_HANDLERS

# Routes are added here: the list of a module of their own.
HANDLERS: Final[tuple[Any, ...]] = (*CHAT_HANDLERS, *SESSION_HANDLERS, *AGENT_HANDLERS)
ALL_HANDLERS: Final[tuple[Any, ...]] = (*HANDLERS, *WEB_HANDLERS)
# Where the page is served: paths without a token, exact ones, and with a slash at their end all below. None may tell
# anything.
PAGE_PATHS: Final[tuple[str, ...]] = ("/", "/terminal", "/static/")


def build_routes(service: HttpService, handlers: Sequence[Any] = HANDLERS) -> Litestar:
    """Return the routes alone: without the guard before them, nobody is granted anything."""
    served_handlers = (*handlers, *(WEB_HANDLERS if service.terminals is not None else ()))
    return Litestar(
        [*served_handlers, build_route(served_handlers)],
        dependencies={"service": Provide(lambda: service, sync_to_thread=False)},
        exception_handlers=dict(ANSWERS),
        guards=[check_grant],
        on_shutdown=[service.agents.close],
        logging_config=None,
        openapi_config=None,
        request_max_body_size=None,  # the guard counts
        debug=False,
    )


def build_application(service: HttpService, rules: AccessRules) -> Application:
    """Return what a server serves."""
    routes: Any = build_routes(service)
    return Guard(routes, rules)


if __name__ == "__main__":
    sys.stdout.write(format_document(ALL_HANDLERS))
