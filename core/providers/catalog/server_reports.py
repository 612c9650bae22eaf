"""The reports of model servers of one's own about themselves and one model, in the words of each kind of server.

The list of models (`/models`) names the kind by `owned_by`, and has the window of vLLM. llama.cpp describes window and
template in `/props`, Ollama a model in `/api/show` and the loaded ones in `/api/ps`, LM Studio in `/api/v0/models`, or
`/api/v1/models` in later versions. A window is that of the loaded model: what the model was trained for is none.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from core.patterns import compile_lazily
from core.providers.catalog import listing, reported
from core.providers.catalog.presets import Kind
from core.providers.catalog.reported import ReportedCapabilities, parse_count, parse_reported
from core.providers.connection.addresses import is_loopback
from core.providers.connection.endpoint import Endpoint, is_openai_host
from core.providers.connection.refusals import ALTERNATES, matches_words
from core.providers.wire.wire_values import get_table, get_tables, get_text
from core.secrets import Secret

PATIENCE: Final = 2.0  # seconds for a server of this machine that listens and may be busy
_OWNERS: Final = {"llamacpp": "llamacpp", "library": "ollama", "organization_owner": "lmstudio", "vllm": "vllm"}
_EXCEPTION: Final = compile_lazily(r"raise_exception\s*\((.{0,400})", re.DOTALL)
_NUM_CTX: Final = compile_lazily(r"(?m)^\s*num_ctx\s+(\d+)\s*$")


class AskedServer(Struct, frozen=True):
    """A server that is asked, with its key and its protocol."""

    endpoint: Endpoint
    secret: Secret | None
    kind: Kind

    @property
    def root(self) -> str:
        """The address without the path of OpenAI's protocols."""
        return self.endpoint.base_url.removesuffix("/v1")

    async def ask(self, path: str, body: Mapping[str, object] | None = None, *, seconds: float = 0.0) -> dict[str, Any]:
        """Return the answer to a GET below the root (`body`: to a POST of it), {} = there is none in time."""
        is_near = is_loopback(self.endpoint.base_url)
        limit = seconds or (max(PATIENCE, listing.LOCAL_SECONDS) if is_near else listing.REMOTE_SECONDS)
        data = json.dumps(body).encode() if body is not None else b""
        headers = listing.build_headers(self.endpoint, self.secret, self.kind)
        with contextlib.suppress(OSError, ValueError, EOFError, TimeoutError):
            async with asyncio.timeout(limit):
                _, answer = await listing.get_json(self.root + path, headers, data)
            return answer if isinstance(answer, dict) else {}
        return {}


async def fetch_reports(server: AskedServer, model: str, *, keep: bool = True, load: bool = False) -> None:
    """Fetch what a server reports about a model and store it (`keep` False: for this process alone). Whatever the
    result, the server counts as asked. `load`: see `LearningProvider`. OpenAI's own list has nothing but names."""
    reports: dict[str, ReportedCapabilities] = {}
    origin = server.endpoint.base_url
    if not is_openai_host(origin) and "{" not in origin:
        reports = await _describe(server, model, load=load)
    await asyncio.to_thread(reported.save_reports, origin, reports, requested=model, keep=keep)


async def _describe(server: AskedServer, model: str, *, load: bool) -> dict[str, ReportedCapabilities]:
    endpoint = server.endpoint
    path = endpoint.base_url.removeprefix(server.root) + listing.build_path(endpoint, server.kind)
    entries = reported.list_entries(await server.ask(path))
    reports = {str(entry["id"]): parse_reported(entry) for entry in entries}
    if server.kind == "anthropic":
        return reports
    owner = next((owner for entry in entries if (owner := _OWNERS.get(get_text(entry, "owned_by")))), endpoint.id)
    report = reports.get(model, ReportedCapabilities())
    match owner:
        case "llamacpp":
            report = _parse_props(await server.ask(f"/props?model={quote(model, safe='')}&autoload=false"))
        case "ollama":
            report = await _ask_ollama(server, model, load=load)
        case "lmstudio":
            report = await _ask_lmstudio(server, model)
    return reports | {model: replace(report, unbounded=True if owner in _OWNERS.values() else None)}


def _parse_props(props: Mapping[str, Any]) -> ReportedCapabilities:
    """Parse llama.cpp's `/props`. Its server gives its one model to whatever name is asked for. A server that has not
    loaded the model, or is older, says less."""
    window = parse_count(get_table(props, "default_generation_settings"), "n_ctx")
    caps, template = get_table(props, "chat_template_caps"), get_text(props, "chat_template")
    tools = caps.get("supports_tools")
    system, vision = caps.get("supports_system_role"), get_table(props, "modalities").get("vision")
    return ReportedCapabilities(
        tools=bool(tools or get_text(props, "chat_template_tool_use")) if isinstance(tools, bool) else None,
        images=vision if isinstance(vision, bool) else None,
        alternates=demands_alternation(template) if template else None,
        takes_system=system if isinstance(system, bool) else None,
        progress=True if window else None,
        context_window=window,
    )


def demands_alternation(template: str) -> bool:
    """Return True if a chat template rejects two messages of the same role in a row."""
    return any(matches_words(ALTERNATES, match[1]) for match in _EXCEPTION.finditer(template))


async def _ask_ollama(server: AskedServer, model: str, *, load: bool) -> ReportedCapabilities:
    """Ask Ollama, which cuts off what its window can't hold without a word. Only a loaded model has a window, unless
    its file sets one."""
    page = await server.ask("/api/show", {"model": model})
    fixed = _NUM_CTX.search(get_text(page, "parameters"))
    window = await _find_loaded_window(server, model) or (int(fixed[1]) if fixed else 0)
    if load and page and not window:
        await server.ask("/api/generate", {"model": model, "stream": False}, seconds=server.endpoint.stall_seconds)
        window = await _find_loaded_window(server, model)
    return replace(parse_reported(page), context_window=window)


async def _find_loaded_window(server: AskedServer, model: str) -> int:
    names = {model, model if ":" in model else f"{model}:latest"}
    entries = get_tables(await server.ask("/api/ps"), "models")
    loaded = (entry for entry in entries if names & {get_text(entry, "name"), get_text(entry, "model")})
    return next(filter(None, (parse_count(entry, "context_length") for entry in loaded)), 0)


async def _ask_lmstudio(server: AskedServer, model: str) -> ReportedCapabilities:
    """Ask LM Studio. It describes tools in the prompt of a model that was not trained for them."""
    listed = await server.ask("/api/v0/models")
    for entry in get_tables(listed, "data"):
        if entry.get("id") == model:
            images = entry.get("type") == "vlm" or None
            return ReportedCapabilities(images=images, context_window=parse_count(entry, "loaded_context_length"))
    listed = {} if listed else await server.ask("/api/v1/models")
    entries = (entry for entry in get_tables(listed, "models") if model in set(_list_names(entry)))
    for entry in entries:
        instances = get_tables(entry, "loaded_instances")
        windows = [parse_count(get_table(instance, "config"), "context_length") for instance in instances]
        vision = get_table(entry, "capabilities").get("vision")
        images = vision if isinstance(vision, bool) else None
        return ReportedCapabilities(images=images, context_window=min(filter(None, windows), default=0))
    return ReportedCapabilities()


def _list_names(entry: Mapping[str, Any]) -> Iterator[str]:
    yield get_text(entry, "key")
    yield from (get_text(instance, "id") for instance in get_tables(entry, "loaded_instances"))
