"""What can be used here and now: providers with a key, and model servers that answer on this machine.

All are asked at once, each for a limited time, with a request of our own that is one line long: no SDK is imported for
it. When nothing listens, the answer is there at once.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from core.config import Settings
from core.errors import AgentTuiError
from core.protocol.queries import ModelChoice, Models, ProviderStatus
from core.providers.base import ModelInfo
from core.providers.catalog.capabilities import is_chat
from core.providers.catalog.pricing import context_window
from core.providers.connection import keys
from core.providers.connection.endpoint import Endpoint, is_loopback
from core.providers.connection.failures import one_line
from core.providers.connection.sdk_provider import model_infos
from core.providers.registry import KNOWN, SCRIPTED, default_model, endpoint_of, kind_of, provider_ids
from core.secrets import Secret

LOCAL_SECONDS: Final = 0.3
REMOTE_SECONDS: Final = 2.5
MAX_BYTES: Final = 4_000_000
NOT_LISTENING: Final = "Nothing listens there."
Found = tuple[ProviderStatus, list[ModelChoice]]


async def discover(settings: Settings, *, probe: bool = True) -> Models:
    """Every provider with its state, and the models that can be chosen. `probe` False: only where keys are."""
    ids = [each for each in provider_ids(settings) if each != SCRIPTED]
    found = await asyncio.gather(*(_look(each, settings, probe=probe) for each in ids))
    return Models(
        models=tuple(model for _, models in found for model in models),
        providers=tuple(status for status, _ in found),
        default=_default(settings, found),
    )


def _default(settings: Settings, found: list[Found]) -> str:
    """What is configured, else the first model of the first provider that can be used."""
    try:
        chosen = default_model(settings)
    except AgentTuiError:
        chosen = ""
    return chosen or next((models[0].id for _, models in found if models), "")


async def _look(provider: str, settings: Settings, *, probe: bool) -> Found:
    label = KNOWN[provider].label if provider in KNOWN else provider
    try:
        endpoint = endpoint_of(provider, settings)
        secret, source = await asyncio.to_thread(
            keys.find_key, provider, base_url=endpoint.base_url, variable=endpoint.variable, seconds=LOCAL_SECONDS
        )
    except AgentTuiError as error:
        return ProviderStatus(id=provider, label=label, problem=error.explained()), []
    local = is_loopback(endpoint.base_url)
    status = ProviderStatus(id=provider, label=label, key=source, base_url=endpoint.base_url, local=local)
    if endpoint.needs_key and secret is None:
        return status, []
    problem, infos = await _listed(endpoint, secret, kind_of(provider, settings), local=local) if probe else ("", [])
    if not infos and endpoint.needs_key and provider in KNOWN:
        infos = [ModelInfo(name=name) for name in KNOWN[provider].suggested]
    return msgspec.structs.replace(status, problem=problem), [
        _choice(provider, info, source or endpoint.base_url) for info in infos
    ]


def _choice(provider: str, info: ModelInfo, source: str) -> ModelChoice:
    model = f"{provider}/{info.name}"
    return ModelChoice(id=model, source=source, context_window=info.context_window or context_window(model))


async def _listed(endpoint: Endpoint, secret: Secret | None, kind: str, *, local: bool) -> tuple[str, list[ModelInfo]]:
    """Why the models can't be listed ("" = they can), and the models that one can chat with."""
    path = "/v1/models?limit=200" if kind == "anthropic" else "/models"
    headers = dict(endpoint.headers)
    if secret is not None:
        headers |= _credentials(secret, kind)
    try:
        async with asyncio.timeout(LOCAL_SECONDS if local else REMOTE_SECONDS):
            status, body = await get_json(endpoint.base_url + path, headers)
    except TimeoutError:
        return "It does not answer in time.", []
    except ConnectionRefusedError:
        return NOT_LISTENING, []
    except (OSError, ValueError, EOFError) as error:
        return f"{one_line(getattr(error, 'strerror', '') or str(error)) or type(error).__name__}.", []
    if status != 200:
        return f"It answers with status {status}.", []
    return "", [info for info in model_infos(body) if is_chat(info.name)]


def _credentials(secret: Secret, kind: str) -> dict[str, str]:
    if kind == "anthropic":
        return {"x-api-key": secret.reveal(), "anthropic-version": "2023-06-01"}
    return {"Authorization": f"Bearer {secret.reveal()}"}


async def get_json(url: str, headers: dict[str, str]) -> tuple[int, Any]:
    """Status and JSON body of one GET over HTTP/1.0, which has no keep-alive and no chunks. Follows no redirect.

    Raises OSError, EOFError, and ValueError if the answer is not HTTP or not JSON.
    """
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    reader, writer = await asyncio.open_connection(
        parts.hostname, parts.port or (443 if secure else 80), ssl=secure or None, limit=MAX_BYTES
    )
    try:
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        lines = [f"GET {target} HTTP/1.0", f"Host: {parts.netloc.rpartition('@')[2]}", "Accept: application/json"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if any("\r" in line or "\n" in line for line in lines):
            raise ValueError("a header has a line break in it")
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status = re.match(r"HTTP/1\.\d (\d{3})", head)
        if status is None:
            raise ValueError("something else than a model server listens there")
        return int(status[1]), await _json(reader, head) if status[1] == "200" else None
    finally:
        writer.close()


async def _json(reader: asyncio.StreamReader, head: str) -> Any:
    length = re.search(r"(?im)^content-length:\s*(\d+)", head)
    body = await (reader.readexactly(min(int(length[1]), MAX_BYTES)) if length else _until_end(reader))
    try:
        return json.loads(body)
    except ValueError:
        raise ValueError("something else than a model server listens there") from None


async def _until_end(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while len(body) < MAX_BYTES and (part := await reader.read(65536)):
        body += part
    return bytes(body)
