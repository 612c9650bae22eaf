"""The application: the table of all routes, and their OpenAPI 3.1 description.

A group of routes is a module with `ROUTES`; every route names the grant that it needs. The routes of the web page are
served only if the user asked for it.

The description is served at `/api/v1/openapi.json` and saved as `docs/openapi.json` by
`python -m core.transports.http.app`. OpenAPI can't describe a WebSocket: the route that hands out its address does.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp

from core import __version__
from core.transports.http.access import AccessRules, Grant
from core.transports.http.agent_routes import ROUTES as AGENT_ROUTES
from core.transports.http.chat.routes import ROUTES as CHAT_ROUTES
from core.transports.http.guard import Guard
from core.transports.http.routing import HEADERS, JSON, WEBSOCKET, HttpRoute, Router
from core.transports.http.service import HttpService
from core.transports.http.session_routes import ROUTES as SESSION_ROUTES
from core.transports.http.sse import EVENT_STREAM
from core.transports.http.web_routes import ROUTES as WEB_ROUTES
from core.transports.response import close_records

_ABOUT: Final = "The chat API and the sessions of agent-tui. `agent-tui help http` explains it."
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
_REFUSAL: Final = {
    "description": "It was not carried out.",
    "content": {JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
# Paths of the web page, which need no token: exact ones, and prefixes with a final slash. They must reveal nothing.
PAGE_PATHS: Final[tuple[str, ...]] = ("/", "/terminal", "/static/")


async def read_openapi(service: HttpService) -> Annotated[Response, dict[str, Any]]:
    """Return this document (OpenAPI 3.1), with the routes of the web page if it is served."""
    return Response(_encode_document(list_routes(service)), media_type=JSON)


# New groups of routes are added here.
ROUTES: Final[tuple[HttpRoute, ...]] = (
    *CHAT_ROUTES,
    *SESSION_ROUTES,
    *AGENT_ROUTES,
    HttpRoute("GET", "/api/v1/openapi.json", read_openapi, Grant.READ, "This document"),
)
ALL_ROUTES: Final[tuple[HttpRoute, ...]] = (*ROUTES, *WEB_ROUTES)
# The names of the routes whose answer is always a stream.
STREAMS: Final = frozenset(route.handler.__name__ for route in ALL_ROUTES if route.contents == (EVENT_STREAM,))


def list_routes(service: HttpService) -> tuple[HttpRoute, ...]:
    """Return the routes that a server has."""
    return ROUTES if service.terminals is None else ALL_ROUTES


def build_routes(service: HttpService) -> Router:
    """Return the routes alone, without the guard: nobody is granted anything."""
    return Router(list_routes(service), service)


def build_application(service: HttpService, rules: AccessRules) -> ASGIApp:
    """Return the application that a server serves."""
    return Guard(build_routes(service), rules)


def build_document(routes: Sequence[HttpRoute]) -> dict[str, Any]:
    """Return the OpenAPI document of routes."""
    routes = [route for route in routes if route.method != WEBSOCKET]
    used_types = [route.hints["data"] for route in routes if "data" in route.hints]
    used_types += [content for route in routes for content in route.contents if not isinstance(content, str)]
    references, records = msgspec.json.schema_components(used_types, ref_template="#/components/schemas/{name}")
    close_records(records, is_required=False, is_closed=False)
    schemas = dict(zip(used_types, references, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path_format, {})[route.method.lower()] = _describe_route(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "agent-tui", "version": __version__, "description": _ABOUT},
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": {**records, "Problem": _PROBLEM},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _describe_route(route: HttpRoute, schemas: Mapping[Any, dict[str, Any]]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": HTTPStatus(route.status).description}
    if route.contents:
        answer["content"] = {
            content if isinstance(content, str) else JSON: {"schema": schemas.get(content, {"type": "string"})}
            for content in route.contents
        }
    operation: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "summary": route.summary,
        "description": inspect.getdoc(route.handler),
        "responses": {str(route.status): answer, "default": _REFUSAL},
    }
    if route.places:
        operation["parameters"] = _describe_parameters(route)
    if "data" in route.hints:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": schemas[route.hints["data"]]}}}
    if route.needs is Grant.NONE:
        operation["security"] = []
    return operation


def _describe_parameters(route: HttpRoute) -> list[dict[str, Any]]:
    _, records = msgspec.json.schema_components([route.parameters])
    record = records["Parameters"]
    described = []
    for name, place in route.places.items():
        schema = record["properties"][name]
        texts = {"description": schema.pop("description")} if "description" in schema else {}
        is_required = name in record["required"]
        described.append(
            {"name": HEADERS.get(name, name), "in": place, "required": is_required, "schema": schema, **texts}
        )
    return described


@cache
def _encode_document(routes: tuple[HttpRoute, ...]) -> bytes:
    return format_document(routes).encode()


def format_document(routes: Sequence[HttpRoute]) -> str:
    """Return the content of `docs/openapi.json`."""
    return json.dumps(build_document(routes), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(format_document(ALL_ROUTES))
