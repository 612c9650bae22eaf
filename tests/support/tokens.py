"""Tokens as OpenAI's current models count them, without a download. Other makers' models count within a few percent."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache

from core.providers.base import ToolSpec


@cache
def _load_encoding():
    """Loaded by the worker that counts, not by each that collects."""
    from bpe_openai import get_encoding

    return get_encoding("o200k_base")


def tokens(text: str) -> int:
    return len(_load_encoding().encode(text))


def list_tokens(tools: Iterable[ToolSpec]) -> int:
    """A tool list as it is sent on chat completions, the longest of the forms."""
    return sum(tokens(json.dumps(_function(tool), ensure_ascii=False)) for tool in tools)


def _function(tool: ToolSpec) -> dict[str, object]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}
