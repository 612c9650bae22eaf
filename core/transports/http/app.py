"""The application: its routes, their OpenAPI 3.1 description, and the answers to requests that fail.

A group of routes is a module with `HANDLERS`; every handler declares the rights that it needs by `opt=READS`, `DRIVES`,
`APPROVES` or `PUBLIC`. The routes of the web page are served only if the user asked for it.

The description is served at `/api/v1/openapi.json` and saved as `docs/openapi.json` by
`python -m core.transports.http.app`. OpenAPI can't describe a WebSocket: the route that hands out its address does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, get_type_hints

import msgspec
from litestar import Litestar, MediaType, Request, Response, get
from litestar.di import Provide
from litestar.exceptions import HTTPException, NotAuthorizedException
from litestar.handlers import WebsocketRouteHandler
from litestar.openapi import OpenAPIConfig

from core import __version__
from core.crash_reports import describe_crash_report, save_crash_report
from core.errors import AgentTuiError
from core.protocol.client import EngineGone
from core.transports.http.access import AccessRules, Grant, HttpRefused
from core.transports.http.agent_routes import HANDLERS as AGENT_HANDLERS
from core.transports.http.chat.routes import HANDLERS as CHAT_HANDLERS
from core.transports.http.guard import Application, Guard, encode_problem
from core.transports.http.service import READS, HttpService, answer_with, check_grant
from core.transports.http.session_routes import HANDLERS as SESSION_HANDLERS
from core.transports.http.web_routes import HANDLERS as WEB_HANDLERS
from core.transports.response import close_records

PATH: Final = "/api/v1/openapi.json"
STREAMED: Final = frozenset({"complete_chat", "plan_chat"})
STREAMS: Final = frozenset({"replay_chat", "follow_session", "follow_background_agent"})
# Media types of answers that are not JSON, by route.
PAGES: Final = {"show_page": "text/html", "show_terminal": "text/html", "read_static": "*/*"}
_ABOUT: Final = "The chat API and the sessions of agent-tui. docs/editors-and-http.md explains it."
_PROBLEM: Final = {
    "type": "object",
    "title": "Problem",
    "description": "A request that was not carried out. `code` is a stable word, `hint` says what to do.",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "hint"],
            "properties": {name: {"type": "string"} for name in ("code", "message", "hint")},
        }
    },
}
_REFERENCE: Final = "#/components/schemas/{name}"
_EVENTS: Final = {"text/event-stream": {"schema": {"type": "string"}}}
# Error codes of the engine that are not a 400: a named thing is unknown (404), or its state has changed (409).
STATUSES: Final[Mapping[str, int]] = {
    "session_unknown": 404,
    "approval_unknown": 404,
    "question_unknown": 404,
    "hunk_unknown": 404,
    "change_unknown": 404,
    "checkpoint_unknown": 404,
    "plan_unknown": 404,
    "agent_unknown": 404,
    "already_answered": 409,
    "turn_running": 409,
    "no_turn": 409,
    "session_in_use": 409,
    "review_conflict": 409,
    "state_unusable": 409,
    "session_exists": 409,
    "agent_runs": 409,
    "nothing_to_pull": 409,
    "store_unavailable": 503,
    "closing": 503,
    "internal": 500,
}
# New groups of routes are added here.
HANDLERS: Final[tuple[Any, ...]] = (*CHAT_HANDLERS, *SESSION_HANDLERS, *AGENT_HANDLERS)
ALL_HANDLERS: Final[tuple[Any, ...]] = (*HANDLERS, *WEB_HANDLERS)
# Paths of the web page, which need no token: exact ones, and prefixes with a final slash. They must reveal nothing.
PAGE_PATHS: Final[tuple[str, ...]] = ("/", "/terminal", "/static/")


def build_routes(service: HttpService, handlers: Sequence[Any] = HANDLERS) -> Litestar:
    """Return the routes alone, without the guard: nobody is granted anything."""
    served_handlers = (*handlers, *(WEB_HANDLERS if service.terminals is not None else ()))
    return Litestar(
        [*served_handlers, build_route(served_handlers)],
        dependencies={"service": Provide(lambda: service, sync_to_thread=False)},
        exception_handlers=dict(ANSWERS),
        guards=[check_grant],
        on_shutdown=[service.agents.close],
        logging_config=None,
        openapi_config=None,
        request_max_body_size=None,  # the guard limits it
        debug=False,
    )


def build_application(service: HttpService, rules: AccessRules) -> Application:
    """Return the application that a server serves."""
    routes: Any = build_routes(service)
    return Guard(routes, rules)


def build_document(handlers: Sequence[Any]) -> dict[str, Any]:
    """Return the OpenAPI document of the routes, and of the route that serves it."""
    handlers = [
        route_handler
        for route_handler in (*handlers, build_route(handlers))
        if not isinstance(route_handler, WebsocketRouteHandler)
    ]
    config = OpenAPIConfig(
        title="agent-tui",
        version=__version__,
        description=_ABOUT,
        use_handler_docstrings=True,
        operation_id_creator=lambda handler, _method, _path: str(handler.fn.__name__),
    )
    nothing = Provide(lambda: None, sync_to_thread=False)
    routes = Litestar(handlers, dependencies={"service": nothing}, openapi_config=config, logging_config=None)
    document: dict[str, Any] = msgspec.to_builtins(routes.openapi_schema.to_schema(), str_keys=True)
    records = _Records(handlers)
    public = {route_handler.fn.__name__ for route_handler in handlers if route_handler.opt.get("needs") is Grant.NONE}
    for handler, operation in _list_operations(document):
        _describe_responses(handler, operation, records)
        if handler in public:
            operation["security"] = []
        if (body := records.find(handler, "body")) is not None:
            operation["requestBody"]["content"] = {"application/json": {"schema": body}}
    document["components"] = {
        "schemas": {**records.schemas, "Problem": _PROBLEM},
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
    }
    document["security"] = [{"token": []}]
    document["servers"] = [{"url": "/"}]
    return document


class _Records:
    """The schemas of the records in requests and answers. They come from msgspec, since litestar misreads its
    tuples."""

    def __init__(self, handlers: Sequence[Any]) -> None:
        kinds = {key: kind for handler in handlers for key, kind in _find_records(handler).items()}
        record_schemas, self.schemas = msgspec.json.schema_components(kinds.values(), ref_template=_REFERENCE)
        self._found = dict(zip(kinds, record_schemas, strict=True))
        close_records(self.schemas, is_required=False, is_closed=False)

    def find(self, handler: str, part: str) -> dict[str, Any] | None:
        """Return the schema of a route's body or answer; None: it has none."""
        return self._found.get((handler, part))


def _find_records(handler: Any) -> dict[tuple[str, str], Any]:
    name, hints = handler.fn.__name__, get_type_hints(handler.fn)
    records = {(name, "body"): hints["data"]} if "data" in hints else {}
    containers = [response.data_container for response in (handler.responses or {}).values()]
    answer = containers[0] if containers else hints.get("return")
    if containers or (isinstance(answer, type) and issubclass(answer, msgspec.Struct)):
        records[(name, "answer")] = answer
    return records


def _list_operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Iterate over operations with the names of their handlers."""
    for methods in document["paths"].values():
        for operation in methods.values():
            yield operation["operationId"], operation


def _describe_responses(handler: str, operation: dict[str, Any], records: _Records) -> None:
    answers = operation["responses"]
    for status in [status_code for status_code in answers if status_code >= "400"]:
        del answers[status]
    for answer in answers.values():
        schema = records.find(handler, "answer")
        content = {"application/json": {"schema": schema}} if schema is not None else {}
        if kind := PAGES.get(handler):
            content = {kind: {"schema": {"type": "string"}}}
        answer["content"] = content | (_EVENTS if handler in STREAMED or handler in STREAMS else {})
    problem = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    answers["default"] = {"description": "It was not carried out.", "content": problem}


def build_route(handlers: Sequence[Any]) -> Any:
    """Return the route that serves the OpenAPI document of other routes."""

    @cache
    def render() -> bytes:
        return format_document(handlers).encode()

    @get(PATH, opt=READS, summary="The description of the routes", responses=answer_with(dict[str, Any]))
    async def read_openapi() -> Response[bytes]:
        """Return this document: OpenAPI 3.1, with the routes of the page where that is served."""
        return Response(render(), media_type="application/json")

    return read_openapi


def format_document(handlers: Sequence[Any]) -> str:
    """Return the content of `docs/openapi.json`."""
    return json.dumps(build_document(handlers), indent=1, sort_keys=True) + "\n"


def build_problem(status: int, code: str, message: str, hint: str = "") -> Response[bytes]:
    """Build an error answer."""
    return Response(encode_problem(code, message, hint), status_code=status, media_type=MediaType.JSON)


def answer_refusal(_: Request[Any, Any, Any], problem: AgentTuiError) -> Response[bytes]:
    """Answer an error that was raised on purpose."""
    status = problem.status if isinstance(problem, HttpRefused) else STATUSES.get(problem.code, 400)
    return build_problem(status, problem.code, problem.message, problem.hint)


def answer_http(_: Request[Any, Any, Any], problem: HTTPException) -> Response[bytes]:
    """Answer an error of litestar: an unknown route, or a body that does not match its record."""
    names = {
        400: "request_invalid",
        404: "route_unknown",
        405: "method_refused",
        NotAuthorizedException.status_code: "no",
    }
    code = names.get(problem.status_code, "request_refused" if problem.status_code < 500 else "internal")
    return build_problem(problem.status_code, code, _describe(problem), "")


def _describe(problem: HTTPException) -> str:
    errors = problem.extra if isinstance(problem.extra, list) else []
    fields = [f"{error.get('key') or 'body'}: {error.get('message')}" for error in errors if isinstance(error, dict)]
    cause = problem.__cause__ or problem.__context__
    if not fields and problem.status_code == 400 and cause is not None:
        return str(cause)
    return "; ".join(fields) or problem.detail


def answer_gone(_: Request[Any, Any, Any], problem: EngineGone) -> Response[bytes]:
    """Answer for an engine that has ended."""
    return build_problem(503, "engine_gone", str(problem))


def answer_fault(_: Request[Any, Any, Any], problem: Exception) -> Response[bytes]:
    """Answer an unexpected fault; its report is saved and named."""
    report = describe_crash_report(save_crash_report(problem, "the server"))
    return build_problem(500, "internal", f"unexpected fault: {type(problem).__name__}.", report)


def answer_undecodable(_: Request[Any, Any, Any], problem: Exception) -> Response[bytes]:
    """Answer a body that is not UTF-8 or nests too deep."""
    return build_problem(400, "request_invalid", f"the body can't be read: {problem}.")


ANSWERS: Final[Mapping[Any, Callable[..., Response[bytes]]]] = {
    AgentTuiError: answer_refusal,
    HTTPException: answer_http,
    EngineGone: answer_gone,
    UnicodeDecodeError: answer_undecodable,
    RecursionError: answer_undecodable,
    Exception: answer_fault,
}


if __name__ == "__main__":
    sys.stdout.write(format_document(ALL_HANDLERS))
