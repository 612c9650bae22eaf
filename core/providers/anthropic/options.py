"""The options that stand after the history of a messages request: how much may be answered, and how it is to be
thought.

All of it may vary from one request to the next, and what a server refuses can be left out.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any, Final

from core.protocol.messages import AssistantMessage, ToolMessage
from core.providers.anthropic.request import MARK, THOUGHTS
from core.providers.base import ModelRequest
from core.providers.catalog.capabilities import Capabilities

DEFAULT_ANSWER: Final = 32_000
LONG_ANSWER: Final = 64_000  # at the efforts that think for long
THINKING_ROOM: Final = 16_000  # what thinking may take beside an answer that the caller bounds
LEAST_BUDGET: Final = 1_024
_BUDGETS: Final = {"minimal": 1_024, "low": 4_096, "medium": 10_000, "high": 20_000, "xhigh": 26_000, "max": 26_000}
_LONG: Final = frozenset({"xhigh", "max"})
# Fields that a server of another maker may refuse, by the words with which it does; the narrowest first.
DISPENSABLE: Final = (
    ("display", ("display",)),
    ("output_config", ("output_config", "effort")),
    ("diagnostics", ("diagnostics",)),
    ("cache_control", ("cache_control",)),
    ("temperature", ("temperature",)),
    ("thinking", ("thinking",)),
)
# What the user loses with some of them.
LOWERED: Final = {
    "output_config": "an effort",
    "thinking": "thinking as it is asked for",
    "temperature": "a temperature",
}


def build_options(
    request: ModelRequest, capabilities: Capabilities, *, without: AbstractSet[str] = frozenset()
) -> dict[str, Any]:
    """The fields after the array. `without`: names of `DISPENSABLE` that are left out."""
    thinking = {} if "thinking" in without else _build_thinking(request, capabilities)
    limit = choose_answer_limit(request, capabilities, thinks=_is_thinking(thinking))
    options: dict[str, Any] = {"max_tokens": limit, "stream": True}
    if "display" in without:
        thinking.pop("display", None)
    if budget := thinking.get("budget_tokens"):
        thinking["budget_tokens"] = min(budget, limit - LEAST_BUDGET)
    if thinking and thinking.get("budget_tokens", LEAST_BUDGET) >= LEAST_BUDGET:
        options["thinking"] = thinking
    if thinking.get("type") == "adaptive" and request.effort and "output_config" not in without:
        options["output_config"] = {"effort": request.effort}
    samples = capabilities.sampling and not _is_thinking(thinking) and "temperature" not in without
    if request.temperature is not None and samples:
        options["temperature"] = request.temperature
    if "cache_control" not in without:
        options["cache_control"] = MARK
    return options


def choose_answer_limit(request: ModelRequest, capabilities: Capabilities, *, thinks: bool) -> int:
    """The tokens that thinking and answer may have together."""
    if request.max_tokens:
        limit = request.max_tokens + (THINKING_ROOM if thinks else 0)
    else:
        limit = LONG_ANSWER if request.effort in _LONG else DEFAULT_ANSWER
    return min(limit, capabilities.max_output or limit)


def _is_thinking(thinking: dict[str, Any]) -> bool:
    return thinking.get("type") in {"adaptive", "enabled", "between_tools"}


def _build_thinking(request: ModelRequest, capabilities: Capabilities) -> dict[str, Any]:
    """The `thinking` field. A model that thinks is asked to show it, or it would look silent between its calls."""
    effort = request.effort or capabilities.default_effort
    best = capabilities.thinking[0] if capabilities.thinking else ""
    if best == "enabled":  # off by itself
        budget = _BUDGETS.get(effort, 0)
        return {"type": "enabled", "budget_tokens": budget} if budget and _can_begin_thinking(request) else {}
    if effort == "none":
        mode = next(
            (candidate for candidate in ("disabled", "between_tools") if candidate in capabilities.thinking), ""
        )
        return {"type": mode} if mode else {}
    return {"type": "adaptive", "display": "summarized"} if best == "adaptive" else {}


def _can_begin_thinking(request: ModelRequest) -> bool:
    """Return True if thinking within a budget may be asked for: not in answer to calls that were made without it."""
    last_answer = next(
        (message for message in reversed(request.messages) if isinstance(message, AssistantMessage)), None
    )
    if last_answer is None or not request.messages or not isinstance(request.messages[-1], ToolMessage):
        return True
    return (
        last_answer.wire is not None
        and bool(last_answer.wire.items)
        and last_answer.wire.items[0].get("type") in THOUGHTS
    )
