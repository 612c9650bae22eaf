"""The login that goes with each request to a remote server: refreshed before it ends, and once where it was refused.

Who refreshes holds the lock and reads again first: another process may have done it. What an issuer refuses for good is
not tried again; what it could not do just now is.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final
from urllib.parse import quote

import httpx2
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from core.clock import now_ms
from core.errors import AgentTuiError
from core.mcp.remote.logins import Login, LoginStore, load_login
from core.records import decode_json

_SCOPE: Final = re.compile(r"""\bscope="([!#-\[\]-~ ]{1,500})\"""")
_REFUSED: Final = frozenset({400, 401, 403})


class _TokenAnswer(Struct, frozen=True):
    access_token: str
    expires_in: float | None = None
    refresh_token: str = ""
    scope: str = ""


class StoredLogin(httpx2.Auth):
    """The login of the requests of one connection, if there is one. `missed`: rights that it had not, "" = none."""

    def __init__(self, store: LoginStore) -> None:
        self._store = store
        self._login: Login | None = None
        self._number = 0
        self.missed = ""

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        login = await self._load()
        if login is not None and login.is_over and login.refresh_token:
            async with self._store.hold():
                login = await self._load()
                if login is not None and login.is_over and login.refresh_token:
                    login = await self._take(login, (yield build_refresh(login)))
        if login is None:
            yield request
            return
        response = yield _sign(request, login)
        if response.status_code == 403:
            await self._note_missed(response.headers.get("www-authenticate", ""))
        if response.status_code != 401:
            return
        async with self._store.hold():
            fresh = await self._load()
            if fresh is not None and fresh.access_token == login.access_token:
                fresh = await self._take(fresh, (yield build_refresh(fresh))) if fresh.refresh_token else None
        if fresh is not None and fresh.access_token != login.access_token:
            yield _sign(request, fresh)

    async def _load(self) -> Login | None:
        """Load the login, if it is another one than before."""
        try:
            number = self._store.find_entry().number
            if number != self._number:
                self._login, self._number = await load_login(self._store), number
        except AgentTuiError:
            return None
        return self._login

    async def _note_missed(self, challenge: str) -> None:
        """Note the rights that a refusal names, so that the next login asks for them (RFC 6750, 3.1)."""
        match = _SCOPE.search(challenge) if "insufficient_scope" in challenge else None
        if match is not None:
            self.missed = match[1]
            with suppress(AgentTuiError):
                await asyncio.to_thread(self._store.note_wanted, self.missed)

    async def _take(self, login: Login, response: httpx2.Response) -> Login:
        """Take the answer to a refresh, and keep what it changes."""
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
            new_login = renew(login, answer.access_token, answer.refresh_token, answer.scope, answer.expires_in)
        try:
            await asyncio.to_thread(self._store.save, new_login)
        except AgentTuiError:
            self._login = new_login  # it holds as long as this connection
        return new_login


def renew(login: Login, access: str, refresh: str, scope: str, seconds: float | None) -> Login:
    """Return a login with new tokens; what an answer leaves out is as it was."""
    return replace(
        login,
        access_token=access,
        refresh_token=refresh or login.refresh_token,
        scope=scope or login.scope,
        expires_ms=now_ms() + int(seconds * 1000) if seconds else 0,
    )


def build_refresh(login: Login) -> httpx2.Request:
    """Build the request that refreshes a login, at the issuer that gave it (RFC 6749, 6)."""
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
