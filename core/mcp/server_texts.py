"""Texts that servers offer beside tools: resources, which a prompt mentions, and prompts, which the user calls by name.

All of it is foreign text: it reaches the model in a tag of its own, and only at the user's word.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from core.errors import ToolFailed
from core.mcp.tool_lists import PromptDefinition, ServerTexts
from core.mcp.wire.sdk_connection import CallAnswer, ContentBlock, SdkConnection
from core.text.display_names import expose_controls

MAX_LISTED: Final = 1_000  # resources, and prompts, of a server
MAX_PAGES: Final = 20
MAX_PROMPT: Final = 100_000  # characters


class _ResourcePage(Struct, rename="camel"):
    resources: list[Any] = []
    next_cursor: str | None = None


class _Contents(Struct, frozen=True):
    contents: list[dict[str, Any]] = []


class _PromptMessage(Struct, frozen=True):
    role: str
    content: ContentBlock


class _PromptAnswer(Struct, frozen=True):
    messages: list[_PromptMessage] = []


async def list_texts(connection: SdkConnection) -> ServerTexts:
    """List what a server has of them; what it can't list, it has not."""
    resources = await _list_pages(connection, "resources", "list_resources")
    templates = await _list_pages(connection, "resources", "list_resource_templates", "resourceTemplates")
    prompts = await _list_pages(connection, "prompts", "list_prompts")
    return ServerTexts(
        resources=tuple({str(resource.get("uri")): _name(resource) for resource in resources}.items()),
        has_templates=bool(templates),
        prompts=tuple(_read_prompt(prompt) for prompt in prompts),
    )


def _name(entry: Mapping[str, Any]) -> str:
    return " ".join(expose_controls(str(entry.get("title") or entry.get("name") or "")).split())[:200]


def _read_prompt(prompt: Mapping[str, Any]) -> PromptDefinition:
    arguments = [argument for argument in prompt.get("arguments") or () if isinstance(argument, dict)]
    return PromptDefinition(
        name=str(prompt.get("name", "")),
        description=" ".join(expose_controls(str(prompt.get("description") or _name(prompt))).split())[:500],
        arguments=tuple(str(argument.get("name", "")) for argument in arguments),
        required=tuple(str(argument.get("name", "")) for argument in arguments if argument.get("required")),
    )


async def _list_pages(connection: SdkConnection, feature: str, method: str, key: str = "") -> list[dict[str, Any]]:
    if not connection.has_feature(feature):
        return []
    entries: list[dict[str, Any]] = []
    cursor = None
    try:
        for _ in range(MAX_PAGES):
            page = await connection.request(method, dict, cursor=cursor)
            entries += [entry for entry in page.get(key or feature) or () if isinstance(entry, dict)]
            cursor = page.get("nextCursor")
            if not cursor or len(entries) >= MAX_LISTED:
                break
    except ToolFailed:
        return entries
    return entries[:MAX_LISTED]


async def read_resource(connection: SdkConnection, uri: str) -> CallAnswer:
    """Read a resource, as an answer with a part for each of its contents. Raises `ToolFailed`."""
    answer = await connection.request("read_resource", _Contents, uri=uri)
    return CallAnswer(content=[_to_block(content) for content in answer.contents])


def _to_block(contents: Mapping[str, Any]) -> ContentBlock:
    kind, blob = str(contents.get("mimeType") or ""), contents.get("blob")
    if isinstance(blob, str):
        return ContentBlock(type="image" if kind.startswith("image/") else "blob", data=blob, mime_type=kind or None)
    return ContentBlock(text=str(contents.get("text") or ""))


async def get_prompt(connection: SdkConnection, name: str, arguments: Mapping[str, str]) -> str:
    """Return the text of a prompt; several messages of it begin with who says them. Raises `ToolFailed`."""
    answer = await connection.request("get_prompt", _PromptAnswer, name=name, arguments=dict(arguments))
    parts = [(message.role, _get_text(message.content)) for message in answer.messages]
    lines = [text for _, text in parts] if len(parts) == 1 else [f"{role}: {text}" for role, text in parts]
    return expose_controls("\n\n".join(lines))[:MAX_PROMPT]


def _get_text(block: ContentBlock) -> str:
    resource_text = block.resource.get("text") if block.type == "resource" else None
    return block.text or (
        resource_text if isinstance(resource_text, str) else f"[{block.type}: it can't be shown here]"
    )


def assign_arguments(prompt: PromptDefinition, text: str) -> dict[str, str]:
    """Return the words behind a prompt's name by the names of its arguments; the last one has all that is left.
    Quotes hold words together. Raises `ToolFailed` for one that is missing, or that it does not take."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    last = len(prompt.arguments) - 1
    if words and last < 0:
        raise ToolFailed(f"{prompt.name} takes no arguments.")
    values = [*words[:last], " ".join(words[last:])] if len(words) > last >= 0 else words
    arguments = dict(zip(prompt.arguments, values, strict=False))
    if missing := [name for name in prompt.required if not arguments.get(name)]:
        raise ToolFailed(f"{prompt.name} needs {', '.join(missing)}.", hint=f"Its arguments: {prompt.hint}.")
    return arguments
