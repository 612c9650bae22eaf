"""Stored logins to remote servers, and the authentication of requests with them.

A login is stored by its issuer in the keyring, or in the 0600 file of keys without one. A second file holds what is not
secret, the issuer and a counter; it is read before each request, so that a login in another terminal takes effect at
once. A token is refreshed shortly before it expires, and once after a refusal. One process at a time refreshes, under a
lock and after reading again, because an issuer that rotates tokens invalidates the old one.
"""

from __future__ import annotations

import asyncio
import base64
import fcntl
import hashlib
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final
from urllib.parse import quote, urlsplit

import httpx2
import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from core.clock import monotonic, now_ms, pause
from core.errors import AgentTuiError
from core.filesystem.private_files import make_private_directory
from core.patterns import compile_lazily
from core.permissions.state_file import StateFile
from core.providers.connection.keys import find_key, forget_stored_key, store_key
from core.records import decode_json
from core.secrets import register_secret
from core.user_dirs import get_state_dir

FILE_NAME: Final = "mcp-logins.json"
MARGIN_MS: Final = 30_000  # before its expiry a token counts as expired
LOCK_SECONDS: Final = 30.0
_LOCK_PAUSE: Final = 0.05
_SCOPE: Final = compile_lazily(r"""\bscope="([!#-\[\]-~ ]{1,500})\"""")
_REFUSED: Final = frozenset({400, 401, 403})


class Login(Struct, frozen=True, kw_only=True):
    """A login. `issuer`: the authorization server; `resource`: the audience, "" = unspecified; `expires_ms` 0:
    unknown."""

    issuer: str
    token_endpoint: str
    client_id: str
    client_secret: str = ""
    auth_method: str = ""
    resource: str = ""
    scope: str = ""
    access_token: str = ""
    refresh_token: str = ""
    expires_ms: int = 0

    @property
    def is_expired(self) -> bool:
        """True if the access token is known to be expired."""
        return bool(self.expires_ms) and now_ms() >= self.expires_ms - MARGIN_MS


class LoginEntry(Struct, frozen=True):
    """The public record of a login: its issuer, and the number of writes. `wanted`: scopes that the server has required
    since."""

    issuer: str = ""
    number: int = 0
    wanted: str = ""


class _LoginBook(Struct, frozen=True, kw_only=True):
    logins: dict[str, LoginEntry] = field(default_factory=dict)


class LoginStore:
    """The login for one server, by its address. Raises `StateError` and `ConfigError` if it can't be stored."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._book = StateFile(FILE_NAME, _LoginBook)

    def find_entry(self) -> LoginEntry:
        """Return the public record; number 0 = there never was a login."""
        return self._book.read().logins.get(self._url, LoginEntry())

    def load(self) -> Login | None:
        """Load the login; None = there is none. Blocks, because a keyring may be queried."""
        entry = self.find_entry()
        if not entry.issuer:
            return None
        secret, _ = find_key(self._name(entry.issuer), base_url=self._url)
        if secret is None:
            return None
        try:
            login = decode_json(base64.urlsafe_b64decode(secret.reveal()), Login)
        except (ValueError, msgspec.MsgspecError):
            return None
        for credential in (login.access_token, login.refresh_token, login.client_secret):
            register_secret(credential)
        return login

    def save(self, login: Login) -> str:
        """Store a login; return the location. Blocks."""
        location = ""

        def change(book: _LoginBook) -> _LoginBook:
            nonlocal location
            before = book.logins.get(self._url, LoginEntry())
            if before.issuer not in {"", login.issuer}:
                forget_stored_key(self._name(before.issuer), base_url=self._url)
            data = base64.urlsafe_b64encode(msgspec.json.encode(login)).decode()
            location = store_key(self._name(login.issuer), data, base_url=self._url)
            return replace(book, logins=book.logins | {self._url: LoginEntry(login.issuer, before.number + 1)})

        self._book.update(change)
        return location

    def record_missing_scope(self, scope: str) -> None:
        """Record scopes that the server requires, for the next login. Blocks."""

        def change(book: _LoginBook) -> _LoginBook:
            before = book.logins.get(self._url, LoginEntry())
            return replace(book, logins=book.logins | {self._url: replace(before, wanted=scope)})

        self._book.update(change)

    def remove(self) -> bool:
        """Remove the login. False: there was none. Blocks."""
        entry = self.find_entry()

        def change(book: _LoginBook) -> _LoginBook:
            forget_stored_key(self._name(entry.issuer), base_url=self._url)
            return replace(book, logins=book.logins | {self._url: LoginEntry("", entry.number + 1)})

        if entry.issuer:
            self._book.update(change)
        return bool(entry.issuer)

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Hold the lock of refreshes of this login; gives up waiting after `LOCK_SECONDS`, since a holder may hang."""
        directory = get_state_dir() / "mcp-logins"
        make_private_directory(directory)
        name = f"{hashlib.sha256(self._url.encode()).hexdigest()[:32]}.lock"
        descriptor = os.open(directory / name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        limit = monotonic() + LOCK_SECONDS
        try:
            while not _try_lock(descriptor) and monotonic() < limit:
                await pause(_LOCK_PAUSE)
            yield
        finally:
            os.close(descriptor)

    def _name(self, issuer: str) -> str:
        return f"mcp {issuer} {urlsplit(self._url).path}"


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def load_login(store: LoginStore) -> Login | None:
    """Load a login in a thread."""
    return await asyncio.to_thread(store.load)


class _TokenAnswer(Struct, frozen=True):
    access_token: str
    expires_in: float | None = None
    refresh_token: str = ""
    scope: str = ""


class StoredLogin(httpx2.Auth):
    """The authentication of one connection with the stored login, if there is one. `missing_scope`: scopes that the
    server required, "" = none."""

    def __init__(self, store: LoginStore) -> None:
        self._store = store
        self._login: Login | None = None
        self._number = 0
        self.missing_scope = ""

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        login = await self._load()
        if login is not None and login.is_expired and login.refresh_token:
            async with self._store.lock():
                login = await self._load()
                if login is not None and login.is_expired and login.refresh_token:
                    login = await self._apply_refresh(login, (yield build_refresh(login)))
        if login is None:
            yield request
            return
        response = yield _sign(request, login)
        if response.status_code == 403:
            await self._record_missing_scope(response.headers.get("www-authenticate", ""))
        if response.status_code != 401:
            return
        async with self._store.lock():
            fresh = await self._load()
            if fresh is not None and fresh.access_token == login.access_token:
                fresh = await self._apply_refresh(fresh, (yield build_refresh(fresh))) if fresh.refresh_token else None
        if fresh is not None and fresh.access_token != login.access_token:
            yield _sign(request, fresh)

    async def _load(self) -> Login | None:
        """Load the login if it changed."""
        try:
            number = self._store.find_entry().number
            if number != self._number:
                self._login, self._number = await load_login(self._store), number
        except AgentTuiError:
            return None
        return self._login

    async def _record_missing_scope(self, challenge: str) -> None:
        """Record the scopes that a refusal names, so that the next login requests them (RFC 6750, 3.1)."""
        match = _SCOPE.search(challenge) if "insufficient_scope" in challenge else None
        if match is not None:
            self.missing_scope = match[1]
            with suppress(AgentTuiError):
                await asyncio.to_thread(self._store.record_missing_scope, self.missing_scope)

    async def _apply_refresh(self, login: Login, response: httpx2.Response) -> Login:
        """Apply the response to a refresh, and store the result."""
        data = await response.aread()
        if response.status_code in _REFUSED:
            new_login = replace(login, refresh_token="")
        elif response.status_code != 200:
            return login
        else:
            try:
                answer = decode_json(data, _TokenAnswer)
            except msgspec.MsgspecError:
                return login
            new_login = update_tokens(login, answer.access_token, answer.refresh_token, answer.scope, answer.expires_in)
        try:
            await asyncio.to_thread(self._store.save, new_login)
        except AgentTuiError:
            self._login = new_login  # valid for this connection only
        return new_login


def update_tokens(login: Login, access: str, refresh: str, scope: str, seconds: float | None) -> Login:
    """Return a login with new tokens; omitted values stay the same."""
    return replace(
        login,
        access_token=access,
        refresh_token=refresh or login.refresh_token,
        scope=scope or login.scope,
        expires_ms=now_ms() + int(seconds * 1000) if seconds else 0,
    )


def build_refresh(login: Login) -> httpx2.Request:
    """Build the refresh request to the issuer of a login (RFC 6749, 6)."""
    data = {"grant_type": "refresh_token", "refresh_token": login.refresh_token, "client_id": login.client_id}
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    if login.resource:
        data["resource"] = login.resource
    if login.client_secret and login.auth_method == "client_secret_basic":
        both = f"{quote(login.client_id, safe='')}:{quote(login.client_secret, safe='')}"
        headers["Authorization"] = f"Basic {base64.b64encode(both.encode()).decode()}"
    elif login.client_secret:
        data["client_secret"] = login.client_secret
    return httpx2.Request("POST", login.token_endpoint, data=data, headers=headers)


def _sign(request: httpx2.Request, login: Login) -> httpx2.Request:
    request.headers["Authorization"] = f"Bearer {login.access_token}"
    return request
