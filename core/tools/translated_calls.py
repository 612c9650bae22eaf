"""Calls of other agents' tools that mean another tool here than the one of that name, or one that has none of its own.

They are translated before anything looks at them, as `call_tool` is: access, approval, document and log are those of
the tool that is meant. A call that can't be translated is left, and refused in the words of the tool that it names.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from msgspec.structs import replace

from core.protocol.messages import ToolCall
from core.records import parse_json

WINDOW: Final = 100  # lines that `open_file` shows of a file when nobody says how many
_Arguments = dict[str, Any]
_Translation = tuple[str, _Arguments] | None
_NAME_CHARACTERS: Final = 80


def translate_call(call: ToolCall) -> ToolCall:
    """Return the call that is meant, under the same id; as given where that is the same."""
    translate = _TRANSLATIONS.get(call.name)
    if translate is None:
        return call
    with suppress(ValueError, RecursionError):
        arguments = parse_json(call.arguments or "{}")
        if isinstance(arguments, dict) and (translation := translate(arguments)) is not None:
            return replace(call, name=translation[0], arguments=json.dumps(translation[1], ensure_ascii=False))
    return call


def _open_window(arguments: _Arguments) -> _Translation:
    """A window of a file (SWE-agent, OpenHands)."""
    has_size = any(arguments.get(name) for name in ("limit", "context_lines", "end_line", "view_range"))
    return "read_file", arguments if has_size else {**arguments, "limit": WINDOW}


def _update_steps(arguments: _Arguments) -> _Translation:
    """The list of steps that Codex keeps: whole in each call."""
    steps = arguments.get("plan")
    if not isinstance(steps, list) or not all(isinstance(step, dict) and "step" in step for step in steps):
        return None
    todos = [{"content": step["step"], "status": step.get("status", "pending")} for step in steps]
    return "todo_write", {"todos": todos}


def _write_plan(arguments: _Arguments) -> _Translation:
    """The plan that Claude Code's models hand in when planning ends."""
    plan = arguments.get("plan")
    if not isinstance(plan, str) or not plan.strip():
        return None
    title = plan.strip().split("\n", 1)[0].strip("# ").removeprefix("Plan:").strip()[:_NAME_CHARACTERS]
    return "create_plan", {"name": title or "Plan", "overview": "", "plan": plan}


def _edit_text(arguments: _Arguments) -> _Translation:
    """Anthropic's text editor: one tool with a command for each of what it does; it knows no insertion here."""
    match arguments.get("command"):
        case "view":
            present_arguments = {
                name: arguments[name] for name in ("path", "view_range") if arguments.get(name) is not None
            }
            return "read_file", present_arguments
        case "create":
            return "write", {"path": arguments.get("path"), "contents": arguments.get("file_text", "")}
        case "str_replace":
            present_arguments = {
                name: arguments[name] for name in ("path", "old_str", "new_str") if arguments.get(name) is not None
            }
            return "search_replace", {"new_str": "", **present_arguments}
    return None


_TRANSLATIONS: Final[dict[str, Callable[[_Arguments], _Translation]]] = {
    "open_file": _open_window,
    "update_plan": _update_steps,
    "ExitPlanMode": _write_plan,
    "exit_plan_mode": _write_plan,
    "EnterPlanMode": lambda _: ("switch_mode", {"target_mode_id": "plan"}),
    "str_replace_editor": _edit_text,
    "str_replace_based_edit_tool": _edit_text,
    "str_replace_based_edit": _edit_text,
}
