"""The one middleware: it checks access, size, speed and content type before any route.

It runs before routing, so a route that does not exist reveals nothing either. Routes read the granted rights with
`get_grant`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from core.text.well_formed import encode_record
from core.transports.http.access import HOST_REFUSED, AccessRules, Grant, HttpRefused, read_headers

MAX_BODY: Final = 32 * 1024 * 1024  # bytes
BODY_LIMIT: Final = 30.0  # seconds for all of a body
MAX_REQUESTS: Final = 1_000  # concurrent
PREFLIGHT_SECONDS: Final = b"600"
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_GRANT: Final = "agent_tui_grant"
_SAFE_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
)


def get_grant(scope: Mapping[str, Any]) -> Grant:
    """Return the grant of a request or WebSocket."""
    return Grant(scope.get(_GRANT, Grant.NONE))


def encode_problem(code: str, message: str, hint: str = "") -> bytes:
    """Return the body of an error answer."""
    return encode_record({"error": {"code": code, "message": message, "hint": hint}})


class Guard:
    """Checks requests to an application. `max_body`: bytes; `body_limit`: seconds; `max_requests`: concurrent
    requests."""

    max_body = MAX_BODY
    body_limit = BODY_LIMIT
    max_requests = MAX_REQUESTS

    def __init__(self, application: ASGIApp, rules: AccessRules) -> None:
        self._application = application
        self._rules = rules
        self._count = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        try:
            scope[_GRANT] = self._authorize(scope)
        except HttpRefused as problem:
            await _refuse(scope, send, problem, self._rules)
            return
        if scope["type"] == "websocket":
            await self._application(scope, receive, send)
            return
        if scope[_GRANT] is None:
            await self._answer_preflight(scope, send)
            return
        self._count += 1
        try:
            exchange = _Exchange(scope, receive, send, self._rules, max_body=self.max_body, limit=self.body_limit)
            await self._application(scope, exchange.receive, exchange.send)
        finally:
            self._count -= 1

    def _authorize(self, scope: Scope) -> Grant | None:
        """Return the grant; None: a CORS preflight. Raises `HttpRefused`."""
        headers = read_headers(scope["headers"])
        if scope["type"] == "http" and _is_preflight(scope, headers) and self._rules.is_foreign_origin(headers):
            self._rules.check_host(headers)
            return None
        grant = self._rules.check_request(scope)
        if scope["type"] == "http":
            self._check_body(scope, headers)
            if self._count >= self.max_requests:
                raise HttpRefused(503, "server_busy", "too many requests are running.", retry_after=1)
        return grant

    def _check_body(self, scope: Scope, headers: Mapping[bytes, bytes]) -> None:
        if scope["method"] not in _WITH_BODY:
            return
        length = headers.get(b"content-length", b"")
        has_body = b"transfer-encoding" in headers or length not in {b"", b"0"}
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if has_body and kind != b"application/json":
            hint = "Send the header `Content-Type: application/json`."
            raise HttpRefused(
                415, "content_type_refused", "the body has to be JSON, with that content type.", hint=hint
            )
        if length.isdigit() and int(length) > self.max_body:
            raise _build_too_large(self.max_body)

    async def _answer_preflight(self, scope: Scope, send: Send) -> None:
        origin = read_headers(scope["headers"])[b"origin"]
        headers = [
            (b"access-control-allow-origin", origin),
            (b"access-control-allow-methods", b"GET, POST, DELETE"),
            (b"access-control-allow-headers", b"authorization, content-type, last-event-id"),
            (b"access-control-max-age", PREFLIGHT_SECONDS),
            (b"vary", b"origin"),
        ]
        await send({"type": "http.response.start", "status": 204, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


class _Exchange:
    """One running request: limits the size and time of its body, and adds headers to its answer."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, rules: AccessRules, *, max_body: int, limit: float
    ) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._rules = rules
        self._max_body = max_body
        self._size = 0
        self._deadline = asyncio.get_running_loop().time() + limit
        self._is_whole = False
        self._is_started = False
        self._is_refused = False

    async def receive(self) -> Message:
        """Return the next message of the client. After the body was refused, the route sees a disconnect."""
        if self._is_refused:
            return {"type": "http.disconnect"}
        if self._is_whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            hint = "Send it in one go."
            return await self._refuse(HttpRefused(408, "body_too_slow", "the body did not arrive in time.", hint=hint))
        self._size += len(message.get("body", b""))
        if self._size > self._max_body:
            return await self._refuse(_build_too_large(self._max_body))
        self._is_whole = not message.get("more_body", False)
        return message

    async def _refuse(self, problem: HttpRefused) -> Message:
        self._is_refused = True
        if not self._is_started:
            await _refuse(self._scope, self._send, problem, self._rules)
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Send a message of the route, unless the guard has answered already."""
        if self._is_refused:
            return
        if message["type"] == "http.response.start":
            self._is_started = True
            message = {**message, "headers": [*message.get("headers", ()), *_list_headers(self._scope, self._rules)]}
        await self._send(message)


def _list_headers(scope: Scope, rules: AccessRules) -> list[tuple[bytes, bytes]]:
    """List the headers of every answer; an allowed page of another origin gets CORS headers."""
    headers = read_headers(scope["headers"])
    if not rules.is_foreign_origin(headers):
        return list(_SAFE_HEADERS)
    resource_policy = (b"cross-origin-resource-policy", b"cross-origin")
    cors_headers = [(b"access-control-allow-origin", headers[b"origin"]), (b"vary", b"origin"), resource_policy]
    cors_headers.append((b"access-control-expose-headers", b"x-conversation-id, retry-after"))
    return [*(header for header in _SAFE_HEADERS if header[0] != resource_policy[0]), *cors_headers]


def _is_preflight(scope: Scope, headers: Mapping[bytes, bytes]) -> bool:
    return scope["method"] == "OPTIONS" and b"access-control-request-method" in headers


def _build_too_large(limit: int) -> HttpRefused:
    return HttpRefused(413, "body_too_large", f"the body is larger than {limit:,} bytes.")


async def _refuse(scope: Scope, send: Send, problem: HttpRefused, rules: AccessRules) -> None:
    """Refuse a request and close its connection without reading the rest of its body. A page may read the reason,
    unless it reached the server by a foreign name."""
    common_headers = _SAFE_HEADERS if problem.status == HOST_REFUSED else _list_headers(scope, rules)
    body = encode_problem(problem.code, problem.message, problem.hint)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
        *common_headers,
    ]
    if problem.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if problem.retry_after:
        headers.append((b"retry-after", str(problem.retry_after).encode()))
    kind = "http.response"
    if scope["type"] == "websocket":
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008})
            return
        kind = "websocket.http.response"
    await send({"type": f"{kind}.start", "status": problem.status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})
