"""Access to the HTTP server: the tokens, the file that holds them, and the check of host, origin and token.

A page in a browser of this machine can send requests to the server, and its own name can resolve to this machine. So
a request must name a host that is served, come from no foreign page, and carry a token, which no page knows.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from collections import deque
from collections.abc import Iterable, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from core.clock import monotonic
from core.errors import AgentTuiError, ConfigError
from core.filesystem.atomic_write import replace_file
from core.filesystem.private_files import make_private_directory
from core.records import decode_json
from core.user_dirs import get_state_dir

FAILURES_COUNTED: Final = 20  # wrong tokens of one address
FAILURE_WINDOW: Final = 60.0  # seconds
TOKEN_PROTOCOL: Final = "agent-tui.token."  # a browser can't send a token with a WebSocket in any other way
WEB_PROTOCOLS: Final = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
HOST_REFUSED: Final = 421  # status code
Headers = Mapping[bytes, bytes]
SHORTEST_TOKEN: Final = 32  # characters
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class Grant(IntEnum):
    """The rights of a token; a level includes those below it. `APPROVE`: verdicts, approvals, policy and trust."""

    NONE = 0
    READ = 1
    DRIVE = 2
    APPROVE = 3


class HttpRefused(AgentTuiError, code="request_refused"):
    """A request that is refused. `status`: of HTTP; `retry_after` in seconds, 0 = unspecified."""

    def __init__(self, status: int, code: str, message: str, *, hint: str = "", retry_after: int = 0) -> None:
        super().__init__(message, hint=hint, code=code)
        self.status = status
        self.retry_after = retry_after


class Tokens(Struct, frozen=True, kw_only=True):
    """The tokens of a server, with 256 random bits in every one."""

    read: str
    drive: str
    approve: str

    def find_grant(self, token: str) -> Grant:
        """Return the grant of a token, in constant time."""
        token_digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        best_grant = Grant.NONE
        for grant, secret in ((Grant.READ, self.read), (Grant.DRIVE, self.drive), (Grant.APPROVE, self.approve)):
            if hmac.compare_digest(token_digest, hashlib.sha256(secret.encode()).digest()):
                best_grant = grant
        return best_grant


class AccessRules(Struct, kw_only=True, eq=False):
    """The rules of one server.

    `hosts`: the accepted values of the Host header; `origins`: other origins whose pages may call the server. `public`:
    paths that are served without a token, exact ones or, with a final slash, prefixes. `ticketed`: the path prefix of
    WebSockets that carry a ticket at the end of their path, which the route checks; "" = none.
    """

    tokens: Tokens
    hosts: frozenset[str]
    origins: frozenset[str] = frozenset()
    public: tuple[str, ...] = ()
    ticketed: str = ""
    _failures: dict[str, deque[float]] = field(default_factory=dict)

    def check_request(self, scope: Mapping[str, Any]) -> Grant:
        """Return the grant of an ASGI request. Raises `HttpRefused`."""
        headers = read_headers(scope["headers"])
        self.check_host(headers)
        self.check_origin(scope, headers)
        if self._is_public(scope):
            return Grant.NONE
        return self._check_token(scope, headers)

    def check_host(self, headers: Headers) -> None:
        """Raise `HttpRefused` for a foreign Host header: a page's name may resolve to this server (DNS rebinding)."""
        if (host := headers.get(b"host", b"").decode("latin-1").lower()) not in self.hosts:
            raise HttpRefused(
                HOST_REFUSED,
                "host_refused",
                f"this server is not {host[:200]!r}." if host else "the request names no host.",
                hint="--allow-host allows another name for it.",
            )

    def check_origin(self, scope: Mapping[str, Any], headers: Headers) -> None:
        """Raise `HttpRefused` for a request from a page of another origin."""
        origin = headers.get(b"origin", b"").decode("latin-1").lower()
        own_origin = (
            f"{WEB_PROTOCOLS.get(scope.get('scheme', 'http'), 'http')}://{headers[b'host'].decode('latin-1').lower()}"
        )
        if origin in self.origins or (origin and origin == own_origin):
            return
        if origin:
            raise HttpRefused(
                403,
                "origin_refused",
                f"pages of {origin[:200]!r} may not call this server.",
                hint="--allow-origin allows a page of yours.",
            )
        if headers.get(b"sec-fetch-site", b"none") not in {b"none", b"same-origin"}:
            raise HttpRefused(403, "origin_refused", "pages of other origins may not call this server.")

    def is_foreign_origin(self, headers: Headers) -> bool:
        """Return True for an allowed page of another origin, which needs CORS headers to read the answer."""
        return headers.get(b"origin", b"").decode("latin-1").lower() in self.origins

    def _is_public(self, scope: Mapping[str, Any]) -> bool:
        path = scope["path"]
        if scope["type"] == "websocket":
            return bool(self.ticketed) and path.startswith(self.ticketed)
        return scope["method"] in {"GET", "HEAD"} and any(
            path == prefix or (prefix.endswith("/") and prefix != "/" and path.startswith(prefix))
            for prefix in self.public
        )

    def _check_token(self, scope: Mapping[str, Any], headers: Headers) -> Grant:
        token = find_token(scope, headers)
        grant = self.tokens.find_grant(token) if token else Grant.NONE
        if grant is not Grant.NONE:
            return grant
        hint = "Send the header `Authorization: Bearer TOKEN`; the server prints the token file at its start."
        if token:
            self._count_failure(str((scope.get("client") or ("",))[0]))
            raise HttpRefused(401, "token_wrong", "the token does not belong to this server.", hint=hint)
        raise HttpRefused(401, "token_missing", "the request has no token.", hint=hint)

    def _count_failure(self, address: str) -> None:
        """Count a wrong token. The right one is always accepted, so that nobody can lock its owner out."""
        now = monotonic()
        if len(self._failures) > 1_000:
            self._failures.clear()
        recent = self._failures.setdefault(address, deque(maxlen=FAILURES_COUNTED))
        if len(recent) == FAILURES_COUNTED and now - recent[0] < FAILURE_WINDOW:
            wait = max(1, round(FAILURE_WINDOW - (now - recent[0])))
            raise HttpRefused(429, "too_many_failures", "too many wrong tokens from there.", retry_after=wait)
        recent.append(now)


def read_headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return the headers of a request by lower-case name. The values of a repeated header are joined, so that no rule
    matches."""
    headers: dict[bytes, bytes] = {}
    for name, value in pairs:
        key = name.lower()
        headers[key] = (
            f"{headers[key].decode('latin-1')}, {value.decode('latin-1')}".encode("latin-1")
            if key in headers
            else value
        )
    return headers


def find_token(scope: Mapping[str, Any], headers: Headers) -> str:
    """Return the token of a request, "" = none. One in the URL is ignored, since URLs are logged."""
    kind, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if kind.lower() == "bearer":
        return token.strip()
    if scope["type"] == "websocket":
        for subprotocol in scope.get("subprotocols", ()):
            if subprotocol.startswith(TOKEN_PROTOCOL):
                return str(subprotocol).removeprefix(TOKEN_PROTOCOL)
    return ""


class ServedFile(Struct, frozen=True, kw_only=True):
    """The content of the token file: the address of the server (`url`, or the path of its `socket`), its process id,
    and its tokens."""

    read: str
    drive: str
    approve: str
    url: str = ""
    socket: str = ""
    pid: int = 0


def get_default_path() -> Path:
    """Return the path of the token file of a server in this process."""
    return get_state_dir() / "serve" / f"{os.getpid()}.json"


def make_tokens() -> Tokens:
    """Make new tokens with 256 random bits in every one."""
    return Tokens(read=secrets.token_urlsafe(32), drive=secrets.token_urlsafe(32), approve=secrets.token_urlsafe(32))


def load_tokens(path: Path) -> Tokens:
    """Load the tokens of a file, or make new ones if it does not exist. Raises `ConfigError`."""
    try:
        file_stat = path.lstat()
    except FileNotFoundError:
        return make_tokens()
    if not stat.S_ISREG(file_stat.st_mode) or file_stat.st_uid != os.geteuid() or file_stat.st_mode & _OTHERS:
        raise ConfigError(f"{path} can be read by others.", hint=f"chmod 600 {path}", code="token_file_open")
    try:
        served_file = decode_json(path.read_bytes(), ServedFile)
    except (msgspec.DecodeError, OSError) as problem:
        raise ConfigError(f"{path} holds no tokens: {problem}.", hint="Remove it; new ones are made.") from problem
    tokens = Tokens(read=served_file.read, drive=served_file.drive, approve=served_file.approve)
    distinct_tokens = {tokens.read, tokens.drive, tokens.approve}
    if len(distinct_tokens) < 3 or any(len(token) < SHORTEST_TOKEN for token in distinct_tokens):
        hint = f"Three different ones of {SHORTEST_TOKEN} characters are needed; remove the file and new ones are made."
        raise ConfigError(f"the tokens in {path} are too weak.", hint=hint, code="tokens_weak")
    return tokens


def save_tokens(path: Path, tokens: Tokens, *, url: str = "", socket: str = "") -> None:
    """Write the token file with mode 0600. Raises `ConfigError`."""
    served_file = ServedFile(
        read=tokens.read, drive=tokens.drive, approve=tokens.approve, url=url, socket=socket, pid=os.getpid()
    )
    try:
        make_private_directory(path.parent)
        replace_file(path, msgspec.json.format(msgspec.json.encode(served_file), indent=2) + b"\n")
    except OSError as problem:
        raise ConfigError(f"the tokens can't be written to {path}: {problem.strerror}.") from problem
