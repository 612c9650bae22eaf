"""Edits among the calls of an answer: which file each one edits, before any of them has run."""

from __future__ import annotations

from core.errors import AgentTuiError
from core.modes import Access
from core.protocol.messages import ToolCall
from core.tools.toolset import Toolset

EDITED_TWICE = "Not applied: the same answer edits {} by a tool call. Nothing was changed by what stands in the text."


def is_edit_call(tools: Toolset, call: ToolCall) -> bool:
    """True if a call is one of a tool that edits."""
    try:
        return tools.find(call.name).access is Access.PROPOSE
    except AgentTuiError:
        return False


def find_double_edits(tools: Toolset, calls: list[ToolCall], in_text: set[str]) -> dict[str, str]:
    """Return an error text by id for calls in the text whose file the same answer edits by a function call."""
    edited_paths = {path for call in calls if call.id not in in_text for path in _list_paths(tools, call)}
    common_paths = {call.id: sorted(edited_paths & _list_paths(tools, call)) for call in calls if call.id in in_text}
    return {identity: EDITED_TWICE.format(", ".join(paths)) for identity, paths in common_paths.items() if paths}


def _list_paths(tools: Toolset, call: ToolCall) -> set[str]:
    try:
        return set(tools.parse(call.name, call.arguments).paths()) if is_edit_call(tools, call) else set()
    except AgentTuiError:
        return set()
