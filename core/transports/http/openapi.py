"""The description of every route, OpenAPI 3.1: served at `/api/v1/openapi.json` and kept as `docs/openapi.json`.

OpenAPI has no words for a WebSocket: the route that hands out its address describes it.
`python -m core.transports.http.app` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final, get_type_hints

import msgspec
from litestar import Litestar, Response, get
from litestar.di import Provide
from litestar.handlers import WebsocketRouteHandler
from litestar.openapi import OpenAPIConfig

from core import __version__
from core.transports.http.access import Grant
from core.transports.http.service import READS, answer_with
from core.transports.response import close_records

PATH: Final = "/api/v1/openapi.json"
STREAMED: Final = frozenset({"complete_chat", "plan_chat"})
STREAMS: Final = frozenset({"replay_chat", "follow_session", "follow_background_agent"})
# What is no JSON, by the route that serves it.
PAGES: Final = {"show_page": "text/html", "show_terminal": "text/html", "read_static": "*/*"}
_ABOUT: Final = "The chat API and the sessions of agent-tui. docs/api.md explains it."
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


def build_document(handlers: Sequence[Any]) -> dict[str, Any]:
    """Return the description of routes, and of the one that serves it."""
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
        _describe_answers(handler, operation, records)
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
    """The records that routes take and answer with, as msgspec describes them: litestar misreads its tuples."""

    def __init__(self, handlers: Sequence[Any]) -> None:
        kinds = {key: kind for handler in handlers for key, kind in _find_records(handler).items()}
        record_schemas, self.schemas = msgspec.json.schema_components(kinds.values(), ref_template=_REFERENCE)
        self._found = dict(zip(kinds, record_schemas, strict=True))
        close_records(self.schemas, is_required=False, is_closed=False)

    def find(self, handler: str, part: str) -> dict[str, Any] | None:
        """Return the schema of the body of a route, or of its answer; None: it has none."""
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
    """Iterate over operations, each with the name of its handler."""
    for methods in document["paths"].values():
        for operation in methods.values():
            yield operation["operationId"], operation


def _describe_answers(handler: str, operation: dict[str, Any], records: _Records) -> None:
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
    """Return the route that serves the description of others."""

    @cache
    def render() -> bytes:
        return format_document(handlers).encode()

    @get(PATH, opt=READS, summary="The description of the routes", responses=answer_with(dict[str, Any]))
    async def read_openapi() -> Response[bytes]:
        """Return this document: OpenAPI 3.1, with the routes of the page where that is served."""
        return Response(render(), media_type="application/json")

    return read_openapi


def format_document(handlers: Sequence[Any]) -> str:
    """Return the description as it stands in `docs/openapi.json`."""
    return json.dumps(build_document(handlers), indent=1, sort_keys=True) + "\n"
