"""Which of the calls of an answer edit a file, and which file, before any of them has run."""

from __future__ import annotations

from core.errors import AgentTuiError
from core.modes import Access
from core.protocol.messages import ToolCall
from core.tools.registry import find_tool, parse_call

TWICE = "Not applied: the same answer edits {} by a tool call. Nothing was changed by what stands in the text."


def proposes(call: ToolCall) -> bool:
    """Whether a call is one of a tool that edits."""
    try:
        return find_tool(call.name).access is Access.PROPOSE
    except AgentTuiError:
        return False


def twice(calls: list[ToolCall], in_text: set[str]) -> dict[str, str]:
    """The calls written as text whose file the same answer edits by a function call, by id, and what is wrong."""
    called = {path for call in calls if call.id not in in_text for path in _paths(call)}
    found = {call.id: sorted(called & _paths(call)) for call in calls if call.id in in_text}
    return {identity: TWICE.format(", ".join(paths)) for identity, paths in found.items() if paths}


def _paths(call: ToolCall) -> set[str]:
    """The files that a call would edit, as the model wrote them."""
    try:
        return set(parse_call(call.name, call.arguments).paths()) if proposes(call) else set()
    except AgentTuiError:
        return set()
