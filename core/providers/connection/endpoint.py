"""The endpoint of a model API: everything that a provider has to know apart from its dialect."""

from __future__ import annotations

import asyncio
import difflib
import importlib
import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from msgspec import Struct, field

from core.errors import ProviderError
from core.installation import describe_extra
from core.providers.base import Provider
from core.providers.connection.addresses import is_loopback
from core.providers.connection.failures import Api, build_environment_error
from core.providers.connection.lean_import import Sdk
from core.secrets import Secret

OPENAI_HOST: Final = "api.openai.com"
STALL_SECONDS: Final = 120.0
LOCAL_STALL_SECONDS: Final = 1_800.0  # A server of this machine may read a long prompt for many minutes.
CONNECT_SECONDS: Final = 15.0
KEY_HEADERS: Final = ("authorization", "x-api-key")  # The headers in which the SDKs send the key.
NAMES_SECONDS: Final = 3.0
FoundKey = tuple[Secret | None, str]


class KeyFinder(Protocol):
    """A function that looks for a key, with a time limit for the keyring; see `keys.find_key`."""

    def __call__(self, *, seconds: float = ..., keyring: bool = ...) -> FoundKey: ...


def _find_no_key(*, seconds: float = 0.0, keyring: bool = True) -> FoundKey:
    return None, ""


class Endpoint(Struct, frozen=True, kw_only=True):
    """A model API. `find_key` returns the key for exactly this address and where it was found; it may take a second.

    `variable`: the environment variable that may hold the key. `needs_key`: nothing is sent without one. `key_command`:
    the command that prints it, "" = none. `key_header`: the header for it, "" = the protocol's own. `query`: parameters
    of every request. `stall_seconds`: how long the server may send no byte at all.
    """

    id: str
    label: str
    base_url: str
    find_key: KeyFinder = _find_no_key
    variable: str = ""
    needs_key: bool = False
    key_command: str = ""
    key_header: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    stall_seconds: float = STALL_SECONDS

    @property
    def patience(self) -> float:
        """The seconds in which a server may send no part of an answer although it sends pings."""
        return 5 * self.stall_seconds

    def build_api(self, *, model: str = "", key: str = "", is_prefixed: bool = True) -> Api:
        """Return the facts about this endpoint that error messages use."""
        return Api(
            label=self.label,
            base_url=self.base_url,
            model=model,
            key=key,
            variable=self.variable,
            stall_seconds=self.stall_seconds,
            provider=self.id,
            prefixed=is_prefixed,
        )

    def load_key(self) -> FoundKey:
        """Return the key to send. Raises `ProviderError` if one is needed and there is none."""
        secret, source = self.find_key()
        if secret is None and self.needs_key:
            hint = f"Paste a key with /login in agent-tui, or set {self.variable}."
            if find_spec("keyring") is None:
                hint += f" To use keys in the system's keyring: {describe_extra('keyring')}"
            raise ProviderError(f"There is no key for {self.label}.", code="key_missing", hint=hint)
        return secret, source


def is_openai_host(url: str) -> bool:
    """Return True if an address is OpenAI's own, in any of its regions."""
    host = urlsplit(url).hostname or ""
    return host == OPENAI_HOST or host.endswith(f".{OPENAI_HOST}")


def build_http_client(sdk: Sdk, endpoint: Endpoint) -> Any:
    """Build the SDK's own HTTP client, with three changes.

    It follows no redirect, which would carry the key to another host. For a server on this machine it loads no
    certificates (20 ms) and reads no proxy variables. A key with a custom header is sent in no other header.
    """
    base = importlib.import_module(f"{sdk}._base_client")
    local = is_loopback(endpoint.base_url)
    plain = local and endpoint.base_url.startswith("http:")

    async def strip_headers(request: Any) -> None:
        for name in KEY_HEADERS:
            if name != endpoint.key_header.lower():
                request.headers.pop(name, None)

    hooks = {"request": [strip_headers]} if endpoint.key_header else None
    try:
        return base.DefaultAsyncHttpxClient(
            follow_redirects=False, verify=not plain, trust_env=not local, event_hooks=hooks
        )
    except (ImportError, ValueError, OSError) as error:
        raise build_environment_error(endpoint.label, error, os.environ) from error


def build_timeouts(client_module: Any, endpoint: Endpoint) -> Any:
    """Return the timeouts: at most 15 s to connect, then `stall_seconds` between two bytes."""
    return client_module.Timeout(endpoint.stall_seconds, connect=min(CONNECT_SECONDS, endpoint.stall_seconds))


def warm_up(client_module: Any, sdk: Sdk) -> None:
    """Make a client and drop it: the imports for an SDK's first client take half as long as importing the SDK.

    The client connects to nothing, so it loads no certificates.
    """
    endpoint = Endpoint(id="", label="", base_url="http://127.0.0.1")
    make = client_module.AsyncOpenAI if sdk == "openai" else client_module.AsyncAnthropic
    make(api_key="none", base_url=endpoint.base_url, http_client=build_http_client(sdk, endpoint))


async def add_similar_names(error: ProviderError, provider: Provider, model: str) -> ProviderError:
    """Return the same error; if the model is unknown, its hint names similar models of the API."""
    if error.code != "model_unknown":
        return error
    try:
        async with asyncio.timeout(NAMES_SECONDS):
            names = [info.name for info in await provider.list_models()]
    except (ProviderError, TimeoutError):
        return error
    suggestions = difflib.get_close_matches(model, names, n=3, cutoff=0.5) or sorted(names)[:3]
    if suggestions:
        error.hint = f"Available: {', '.join(suggestions)}. Choose one with /model."
    return error
