"""The models that an API lists, fetched by a minimal HTTP request, so that no SDK is imported."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from core.providers.base import ModelInfo
from core.providers.catalog import reported
from core.providers.catalog.capabilities import is_chat_model
from core.providers.catalog.presets import Kind
from core.providers.connection.addresses import is_loopback
from core.providers.connection.endpoint import Endpoint
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
    try:
        async with asyncio.timeout(get_limit(endpoint)):
            url = endpoint.base_url + build_path(endpoint, kind)
            status, body = await get_json(url, build_headers(endpoint, secret, kind))
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


def build_path(endpoint: Endpoint, kind: Kind) -> str:
    """Return the path of the list of models, below the base URL."""
    path = "/v1/models?limit=200" if kind == "anthropic" else "/models"
    return f"{path}{'&' if '?' in path else '?'}{urlencode(endpoint.query)}" if endpoint.query else path


def get_limit(endpoint: Endpoint) -> float:
    """Return the seconds in which a server has to answer."""
    return LOCAL_SECONDS if is_loopback(endpoint.base_url) else REMOTE_SECONDS


def build_headers(endpoint: Endpoint, secret: Secret | None, kind: Kind) -> dict[str, str]:
    """Return the headers of an endpoint, with the key."""
    headers, header = dict(endpoint.headers), endpoint.key_header
    if secret is None:
        return headers
    if kind == "anthropic":
        return headers | {"anthropic-version": "2023-06-01", header or "x-api-key": secret.reveal()}
    return headers | ({header: secret.reveal()} if header else {"Authorization": f"Bearer {secret.reveal()}"})


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
