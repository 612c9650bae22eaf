"""The models that an API lists, fetched by a minimal HTTP request, so that no SDK is imported."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from typing import Any, Final
from urllib.parse import urlencode, urljoin, urlsplit

from core.providers.base import ModelInfo
from core.providers.catalog import reported
from core.providers.catalog.capabilities import is_chat_model
from core.providers.catalog.presets import Kind
from core.providers.connection.addresses import is_loopback
from core.providers.connection.endpoint import Endpoint, is_openai_host
from core.providers.connection.failures import to_one_line
from core.records import parse_json
from core.secrets import Secret

LOCAL_SECONDS: Final = 0.3
REMOTE_SECONDS: Final = 2.5
MAX_BYTES: Final = 4_000_000
NOT_LISTENING: Final = "not running"


async def fetch_models(endpoint: Endpoint, secret: Secret | None, kind: Kind) -> tuple[str, list[ModelInfo]]:
    """Return the chat models, preceded by the reason why they can't be listed ("" = they can)."""
    if "{" in endpoint.base_url:
        return "Its address depends on a model: name one.", []
    path = "/v1/models?limit=200" if kind == "anthropic" else "/models"
    if endpoint.query:
        path += f"{'&' if '?' in path else '?'}{urlencode(endpoint.query)}"
    headers = dict(endpoint.headers)
    if secret is not None:
        headers |= _build_credentials(secret, kind, endpoint.key_header)
    try:
        async with _limit_time(endpoint):
            status, body = await get_json(endpoint.base_url + path, headers)
    except TimeoutError:
        return "It does not answer in time.", []
    except ConnectionRefusedError:
        return NOT_LISTENING, []
    except (OSError, ValueError, EOFError) as error:
        return f"{to_one_line(getattr(error, 'strerror', '') or str(error)) or type(error).__name__}.", []
    if status != 200:
        return f"It answers with status {status}.", []
    await asyncio.to_thread(reported.save_reported, endpoint.base_url, reported.list_entries(body))
    return "", [info for info in reported.parse_model_infos(body) if is_chat_model(info.name)]


async def fetch_capabilities(endpoint: Endpoint, secret: Secret | None, kind: Kind, model: str) -> None:
    """Fetch what an API reports about a model and store it; whatever the result, the API is not asked again for a
    while. OpenAI's own list has nothing but names, and so has Ollama's, which describes one model at a time."""
    entries: list[dict[str, Any]] = []
    if endpoint.id == "ollama":
        with contextlib.suppress(OSError, ValueError, EOFError, TimeoutError):
            async with _limit_time(endpoint):
                body = json.dumps({"model": model}).encode()
                _, answer = await get_json(urljoin(endpoint.base_url, "/api/show"), dict(endpoint.headers), body)
            entries = [{**answer, "id": model}] if isinstance(answer, dict) else []
    elif not is_openai_host(endpoint.base_url):
        await fetch_models(endpoint, secret, kind)
    await asyncio.to_thread(reported.save_reported, endpoint.base_url, entries, requested_model=model)


def _limit_time(endpoint: Endpoint) -> asyncio.Timeout:
    return asyncio.timeout(LOCAL_SECONDS if is_loopback(endpoint.base_url) else REMOTE_SECONDS)


def _build_credentials(secret: Secret, kind: Kind, header: str) -> dict[str, str]:
    if kind == "anthropic":
        return {"anthropic-version": "2023-06-01", header or "x-api-key": secret.reveal()}
    return {header: secret.reveal()} if header else {"Authorization": f"Bearer {secret.reveal()}"}


async def get_json(url: str, headers: dict[str, str], body: bytes = b"") -> tuple[int, Any]:
    """Return status and JSON body of one GET (`body`: a POST of that JSON) over HTTP/1.0, which has no keep-alive and
    no chunks. Follows no redirect. Raises OSError, EOFError, and ValueError if the answer is not HTTP or not JSON."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    reader, writer = await asyncio.open_connection(
        parts.hostname, parts.port or (443 if secure else 80), ssl=secure or None, limit=MAX_BYTES
    )
    try:
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        if body:
            headers = headers | {"Content-Type": "application/json", "Content-Length": str(len(body))}
        verb, host = "POST" if body else "GET", parts.netloc.rpartition("@")[2]
        lines = [f"{verb} {target} HTTP/1.0", f"Host: {host}", "Accept: application/json"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if any("\r" in line or "\n" in line for line in lines):
            raise ValueError("a header contains a line break")
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status = re.match(r"HTTP/1\.\d (\d{3})", head)
        if status is None:
            raise ValueError("something other than a model server is listening there")
        return int(status[1]), await _read_json(reader, head) if status[1] == "200" else None
    finally:
        writer.close()


async def _read_json(reader: asyncio.StreamReader, head: str) -> Any:
    length = re.search(r"(?im)^content-length:\s*(\d+)", head)
    body = bytearray(await reader.readexactly(min(int(length[1]), MAX_BYTES)) if length else b"")
    while not length and len(body) < MAX_BYTES and (part := await reader.read(65536)):
        body += part
    try:
        return parse_json(body)
    except ValueError:
        raise ValueError("something other than a model server is listening there") from None
