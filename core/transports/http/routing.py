"""Routes: the table of methods, paths and handlers, and the ASGI application that serves it.

The signature of a handler declares the request and the answer of its route. A handler is called with those that it
names of `service`, `request`, `socket`, `data` (the JSON of the body), the placeholders of its path, and parameters of
the query or a header. It returns a record, nothing, or a response of its own, which is annotated with its possible
contents: a type of records (sent as JSON), or a media type.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, cached_property
from types import NoneType
from typing import Annotated, Any, Final, get_origin, get_type_hints

import msgspec
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from core.crash_reports import describe_crash_report, save_crash_report
from core.errors import AgentTuiError
from core.protocol.client import EngineGone
from core.records import RecordDecoder, build_json_decoder, convert
from core.text.well_formed import encode_record
from core.transports.http.access import Grant, HttpRefused
from core.transports.http.guard import encode_problem, get_grant
from core.transports.http.service import HttpService, require_grant

JSON: Final = "application/json"
WEBSOCKET: Final = ""  # in the place of a method
POLICY_VIOLATED: Final = 1008  # close code of a WebSocket
# Parameters that are headers, with the names of these.
HEADERS: Final[Mapping[str, str]] = {"last_event_id": "Last-Event-ID"}
_PROVIDED: Final = frozenset({"service", "request", "socket", "data", "return"})
# Error codes of the engine that are not a 400: a named thing is unknown (404), or its state has changed (409).
STATUSES: Final[Mapping[str, int]] = {
    **dict.fromkeys(("session_unknown", "approval_unknown", "question_unknown", "hunk_unknown"), 404),
    **dict.fromkeys(("change_unknown", "checkpoint_unknown", "plan_unknown", "agent_unknown"), 404),
    **dict.fromkeys(("already_answered", "turn_running", "no_turn", "session_in_use", "review_conflict"), 409),
    **dict.fromkeys(("state_unusable", "session_exists", "agent_runs", "nothing_to_pull"), 409),
    **dict.fromkeys(("store_unavailable", "closing"), 503),
    "internal": 500,
}


class HttpRoute(Struct, frozen=True, eq=False, dict=True):
    """One route. `method`: of HTTP, or `WEBSOCKET`; `needs`: the least that a token has to grant; `status`: of an
    answer that is a record."""

    method: str
    path: str
    handler: Callable[..., Awaitable[Any]]
    needs: Grant
    summary: str = ""
    status: int = 200

    @cached_property
    def path_format(self) -> str:
        """The path with the bare names of its placeholders."""
        return compile_path(self.path)[1]

    @cached_property
    def hints(self) -> dict[str, Any]:
        """The types of the handler's parameters and of its `return`."""
        return get_type_hints(self.handler, include_extras=True)

    @cached_property
    def contents(self) -> tuple[Any, ...]:
        """The possible contents of an answer: types of records, and media types."""
        answer = self.hints["return"]
        if get_origin(answer) is Annotated:
            return tuple(answer.__metadata__)
        return () if answer is NoneType else (answer,)

    @cached_property
    def places(self) -> dict[str, str]:
        """The places of the parameters (`path`, `query` or `header`), by their names."""
        placeholders = compile_path(self.path)[2]
        return {
            name: "path" if name in placeholders else "header" if name in HEADERS else "query"
            for name in self.hints
            if name not in _PROVIDED
        }

    @cached_property
    def parameters(self) -> type[Struct]:
        """The record of the parameters."""
        signature = inspect.signature(self.handler)
        defaults = {name: parameter.default for name, parameter in signature.parameters.items()}
        fields = [
            (name, self.hints[name], msgspec.field() if defaults[name] is signature.empty else defaults[name])
            for name in self.places
        ]
        return msgspec.defstruct("Parameters", fields, kw_only=True)


class Router:
    """The ASGI application of routes. Of two paths that match, the first of the table is chosen."""

    def __init__(self, routes: Sequence[HttpRoute], service: HttpService) -> None:
        self.routes, self._service = routes, service
        self._paths = [
            (compile_path(path)[0], {route.method: route for route in routes if route.path == path})
            for path in dict.fromkeys(route.path for route in routes)
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "websocket":
            await self._connect(WebSocket(scope, receive, send))
        else:
            await self._respond(Request(scope, receive), send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._service.agents.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _connect(self, socket: WebSocket) -> None:
        route = self._match(socket.scope).get(WEBSOCKET)
        if route is None or get_grant(socket.scope) < route.needs:
            await socket.close(POLICY_VIOLATED)
            return
        await route.handler(**self._select(route, socket=socket, **socket.path_params))

    async def _respond(self, request: Request, send: Send) -> None:
        try:
            response = await self._answer(request)
        except ClientDisconnect:
            return
        except Exception as problem:
            response = answer_problem(problem)
        await response(request.scope, request.receive, send)

    async def _answer(self, request: Request) -> Response:
        routes = self._match(request.scope)
        if not routes:
            raise HttpRefused(404, "route_unknown", "Not Found")
        if request.method == "OPTIONS":
            require_grant(request.scope, Grant.APPROVE)
            return Response(status_code=204, headers={"Allow": ", ".join(sorted(filter(None, [*routes, "OPTIONS"])))})
        if (route := routes.get(request.method)) is None:
            raise HttpRefused(405, "method_refused", "Method Not Allowed")
        require_grant(request.scope, route.needs)
        arguments = await _read_arguments(route, request)
        answer = await route.handler(**self._select(route, request=request, **arguments))
        if isinstance(answer, Response):
            return answer
        content = None if answer is None else encode_record(answer)
        return Response(content, route.status, media_type=None if content is None else JSON)

    def _match(self, scope: Scope) -> Mapping[str, HttpRoute]:
        """Return the routes of a path by their methods, and keep the values of its placeholders in the scope."""
        path = scope["path"].rstrip("/") or "/"
        for pattern, routes in self._paths:
            if (match := pattern.fullmatch(path)) is not None:
                scope["path_params"] = match.groupdict()
                return routes
        return {}

    def _select(self, route: HttpRoute, **arguments: Any) -> dict[str, Any]:
        """Return the arguments that a handler declares."""
        return {name: value for name, value in {**arguments, "service": self._service}.items() if name in route.hints}


async def _read_arguments(route: HttpRoute, request: Request) -> dict[str, Any]:
    """Read the parameters and the body of a request. Raises `HttpRefused` if they do not match their types."""
    _refuse_unknown_parameters(route, request)
    values: dict[str, str] = {}
    for name, place in route.places.items():
        sources = {"path": request.path_params, "query": request.query_params, "header": request.headers}
        if (value := sources[place].get(HEADERS.get(name, name))) is not None:
            values[name] = value
    part = "query"
    try:
        arguments = msgspec.structs.asdict(convert(values, route.parameters, strict=False))
        if "data" in route.hints:
            part = "data"
            arguments["data"] = _build_decoder(route.hints["data"]).decode(await request.body())
    except UnicodeDecodeError as problem:
        raise HttpRefused(400, "request_invalid", f"the body can't be read: {problem}.") from None
    except msgspec.DecodeError as problem:
        raise HttpRefused(400, "request_invalid", _describe_mismatch(problem, part)) from None
    return arguments


def _refuse_unknown_parameters(route: HttpRoute, request: Request) -> None:
    """Raise `HttpRefused` for a parameter of the query that a route of the API does not have: ignored, it would seem to
    work. The scripts of pages read the queries of those."""
    if not route.path.startswith("/api/"):
        return
    known_names = [name for name, place in route.places.items() if place == "query"]
    for name in request.query_params:
        if name not in known_names:
            listing = f"It takes {', '.join(known_names)}." if known_names else "It takes none in the query."
            raise HttpRefused(400, "request_invalid", f"query: unknown parameter {name[:100]!r}.", hint=listing)


@cache
def _build_decoder(kind: Any) -> RecordDecoder[Any]:
    return build_json_decoder(kind, strict=False)


def _describe_mismatch(problem: msgspec.DecodeError, part: str) -> str:
    """Return the sentence of an error, which begins with the name of the field or else of the part of the request."""
    message, _, field = str(problem).partition(" - at `$")
    return f"{field.strip('.`') or part}: {message}" if isinstance(problem, msgspec.ValidationError) else message


def answer_problem(problem: Exception) -> Response:
    """Return the answer to a request that raised an error. The report of an unexpected fault is saved and named."""
    if isinstance(problem, AgentTuiError):
        status = problem.status if isinstance(problem, HttpRefused) else STATUSES.get(problem.code, 400)
        content = encode_problem(problem.code, problem.message, problem.hint)
    elif isinstance(problem, EngineGone):
        status, content = 503, encode_problem("engine_gone", str(problem))
    else:
        report = describe_crash_report(save_crash_report(problem, "the server"))
        status, content = 500, encode_problem("internal", f"unexpected error: {type(problem).__name__}.", report)
    return Response(content, status, media_type=JSON)
