"""A request's prompt in the order in which a model reads it: what caches and signatures are about."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

Item = dict[str, Any]
THOUGHTS: Final = ("thinking", "redacted_thinking")


def unmarked(value: Any) -> Any:
    """The same without marks for the cache, which do not count as content."""
    if isinstance(value, dict):
        return {key: unmarked(child) for key, child in value.items() if key != "cache_control"}
    return [unmarked(child) for child in value] if isinstance(value, list) else value


def text_of(value: Any) -> str:
    """Exactly as it was sent: order of keys is kept."""
    return json.dumps(unmarked(value), ensure_ascii=True, separators=(",", ":"))


def blocks_of(messages: list[Item]) -> list[tuple[str, Item]]:
    """Role and block of all messages; a text alone is one block. In which order a block has its keys says nothing."""
    pairs: list[tuple[str, Item]] = []
    for message in messages:
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        pairs += [(message["role"], dict(sorted(block.items()))) for block in blocks]
    return pairs


def loaded_tools(body: Mapping[str, Any]) -> list[Item]:
    """The tools that stand before everything else: a deferred one does so nowhere, and is read where it is named."""
    return [tool for tool in body.get("tools", []) if not tool.get("defer_loading")]


def expanded(body: Mapping[str, Any], block: Item) -> Item:
    """A result as a model reads it: with the definitions of the tools that it names."""
    content = block.get("content")
    if block.get("type") != "tool_result" or not isinstance(content, list):
        return block
    tools = {tool.get("name"): tool for tool in body.get("tools", [])}
    return {**block, "content": [tools.get(part.get("tool_name"), part) for part in content]}


def parts_of(body: Mapping[str, Any]) -> dict[str, str]:
    """The parts of the prompt on any wire: tools, system, and the messages one after the other."""
    messages = body.get("input", body.get("messages", ()))
    listed = [messages] if isinstance(messages, str) else messages
    system = body.get("instructions", body.get("system", ""))
    is_anthropic = "max_tokens" in body and "input" not in body
    blocks = [(role, expanded(body, block)) for role, block in blocks_of(list(listed))] if is_anthropic else listed
    return {
        "tools": text_of(loaded_tools(body)),
        "system": text_of(system),
        "messages": "\n".join(text_of(block) for block in blocks),
    }
