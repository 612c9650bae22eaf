"""Logins to remote servers: kept by issuer in the keyring, or in the 0600 file of keys where there is none.

What is no secret, that there is a login and which, stands in a file of its own: it is looked at before each request, so
that a login in another terminal counts at once. Tokens are refreshed by one process at a time: an issuer that rotates
them forgets the old one.
"""

from __future__ import annotations

import asyncio
import base64
import fcntl
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from core.clock import monotonic, now_ms, pause
from core.filesystem.private_directories import make_private_directory
from core.permissions.state_file import StateFile
from core.providers.connection.keys import find_key, forget_stored_key, store_key
from core.records import decode_json
from core.secrets import register_secret
from core.user_dirs import get_state_dir

FILE_NAME: Final = "mcp-logins.json"
MARGIN_MS: Final = 30_000  # before the end of a token that it counts as ended
LOCK_SECONDS: Final = 30.0
_LOCK_PAUSE: Final = 0.05


class Login(Struct, frozen=True, kw_only=True):
    """A login. `issuer`: who gave it, `resource`: what it is for, "" = was not said; `expires_ms` 0: not known."""

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
    def is_over(self) -> bool:
        """True if its token is known to be of no use any more."""
        return bool(self.expires_ms) and now_ms() >= self.expires_ms - MARGIN_MS


class LoginEntry(Struct, frozen=True):
    """That there is a login for a server: its issuer, and the number of times that it was written. `wanted`: the rights
    that the server missed in it since."""

    issuer: str = ""
    number: int = 0
    wanted: str = ""


class _LoginBook(Struct, frozen=True, kw_only=True):
    logins: dict[str, LoginEntry] = field(default_factory=dict)


class LoginStore:
    """The login for one server, by its address. Raises `StateError` and `ConfigError` where it can't be kept."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._book = StateFile(FILE_NAME, _LoginBook)

    def find_entry(self) -> LoginEntry:
        """Return what is known without its secrets; number 0 = there never was a login."""
        return self._book.read().logins.get(self._url, LoginEntry())

    def load(self) -> Login | None:
        """Load the login; None = there is none. Blocks, as a keyring may be asked."""
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
        """Keep a login; return where. Blocks."""
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

    def note_wanted(self, scope: str) -> None:
        """Note rights that the server missed, for the next login. Blocks."""

        def change(book: _LoginBook) -> _LoginBook:
            before = book.logins.get(self._url, LoginEntry())
            return replace(book, logins=book.logins | {self._url: replace(before, wanted=scope)})

        self._book.update(change)

    def remove(self) -> bool:
        """Forget the login. False: there was none. Blocks."""
        entry = self.find_entry()

        def change(book: _LoginBook) -> _LoginBook:
            forget_stored_key(self._name(entry.issuer), base_url=self._url)
            return replace(book, logins=book.logins | {self._url: LoginEntry("", entry.number + 1)})

        if entry.issuer:
            self._book.update(change)
        return bool(entry.issuer)

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Be the one process that refreshes this login; one that hangs is waited for `LOCK_SECONDS`."""
        directory = get_state_dir() / "mcp-logins"
        make_private_directory(directory)
        name = f"{hashlib.sha256(self._url.encode()).hexdigest()[:32]}.lock"
        descriptor = os.open(directory / name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        limit = monotonic() + LOCK_SECONDS
        try:
            while not _can_lock(descriptor) and monotonic() < limit:
                await pause(_LOCK_PAUSE)
            yield
        finally:
            os.close(descriptor)

    def _name(self, issuer: str) -> str:
        return f"mcp {issuer} {urlsplit(self._url).path}"


def _can_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def load_login(store: LoginStore) -> Login | None:
    """Load a login without holding anybody up."""
    return await asyncio.to_thread(store.load)
