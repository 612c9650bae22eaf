"""The JSON on a hook's standard input, in the dialect of its file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from core import __version__
from core.hooks.dialect_names import HookEvent, build_tool_input, get_foreign_tool, get_native_name
from core.hooks.parsing import Hook

MAX_CONTENT: Final = 2_000_000  # characters of one text in a hook's input
_PERMISSION_MODES: Final = {"agent": "default", "plan": "plan", "ask": "plan", "debug": "default"}


class HookScene(Struct, frozen=True, kw_only=True):
    """The session of an event. `agent`, `agent_type`: of a subagent, "" = it is the main session."""

    session: str
    root: Path
    turn: str = ""
    model: str = ""
    mode: str = "agent"
    effort: str = ""
    directory: str = "."
    agent: str = ""
    agent_type: str = ""


class HookCall(Struct, frozen=True, kw_only=True):
    """The tool call of an event. `path`: the file in question, "" = as in the arguments. `result` and `duration_ms` are
    set after its end."""

    tool: str
    call: str
    arguments: Mapping[str, Any]
    path: str = ""
    result: str = ""
    duration_ms: int = 0


def build_payload(
    hook: Hook, scene: HookScene, fields: Mapping[str, Any], call: HookCall | None = None
) -> dict[str, Any]:
    """Build the input of a hook. `fields`: the specific fields of the event, with names common to both dialects."""
    name = get_native_name(hook.event, hook.dialect)
    common = _build_claude(scene) if hook.dialect == "claude" else _build_cursor(scene)
    call_fields = _build_call(hook, scene, call) if call is not None else {}
    return {**common, "hook_event_name": name, **call_fields, **_shorten(fields)}


def encode_payload(payload: Mapping[str, Any]) -> bytes:
    """Encode an input, with a final newline for hooks that read lines."""
    return msgspec.json.encode(payload, order=None) + b"\n"


def _build_cursor(scene: HookScene) -> dict[str, Any]:
    agent_fields = {"subagent_id": scene.agent, "subagent_type": scene.agent_type} if scene.agent else {}
    return {
        "conversation_id": scene.session,
        "generation_id": scene.turn,
        "session_id": scene.session,
        "model": scene.model,
        "cursor_version": f"agent-tui {__version__}",
        "workspace_roots": [str(scene.root)],
        "user_email": None,
        "transcript_path": None,
        **agent_fields,
    }


def _build_claude(scene: HookScene) -> dict[str, Any]:
    agent_fields = {"agent_id": scene.agent, "agent_type": scene.agent_type} if scene.agent else {}
    return {
        "session_id": scene.session,
        "prompt_id": scene.turn,
        "transcript_path": "",
        "cwd": str(scene.root / scene.directory),
        "permission_mode": _PERMISSION_MODES.get(scene.mode, "default"),
        "effort": {"level": scene.effort or "default"},
        **agent_fields,
    }


def _build_call(hook: Hook, scene: HookScene, call: HookCall) -> dict[str, Any]:
    tool_input = build_tool_input(call.tool, call.arguments, hook.dialect, scene.root, call.path)
    payload: dict[str, Any]
    cwd = str(scene.root / scene.directory)
    match hook.event:
        case HookEvent.BEFORE_SHELL | HookEvent.AFTER_SHELL:
            command = call.arguments.get("command", call.arguments.get("code", ""))
            is_boxed = "all" not in (call.arguments.get("required_permissions") or ())
            return {"command": command, "cwd": cwd, "sandbox": is_boxed, **_build_end(hook, "output", call)}
        case HookEvent.BEFORE_MCP | HookEvent.AFTER_MCP:
            server, _, tool = call.tool.removeprefix("mcp__").partition("__")
            tool_fields = {"tool_name": tool, "tool_input": _to_json(tool_input), "server": server}
            return {**tool_fields, **_build_end(hook, "result_json", call)}
        case HookEvent.BEFORE_READ | HookEvent.AFTER_EDIT:
            return {"file_path": str(scene.root / call.path)}
    foreign = get_foreign_tool(call.tool)
    payload = {
        "tool_name": foreign.claude if hook.dialect == "claude" else foreign.cursor,
        "tool_input": tool_input,
        "tool_use_id": call.call,
        "cwd": cwd,
    }
    if hook.event is HookEvent.POST_TOOL:
        key = "tool_response" if hook.dialect == "claude" else "tool_output"
        response: object = {"content": call.result} if hook.dialect == "claude" else _to_json({"content": call.result})
        payload |= {key: response, "duration_ms" if hook.dialect == "claude" else "duration": call.duration_ms}
    return payload


def _build_end(hook: Hook, name: str, call: HookCall) -> dict[str, Any]:
    """Return the result fields of a call, {} before it has run."""
    is_over = hook.event in {HookEvent.AFTER_SHELL, HookEvent.AFTER_MCP}
    return {name: call.result, "duration": call.duration_ms} if is_over else {}


def _to_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _shorten(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value[:MAX_CONTENT] if isinstance(value, str) else value for key, value in fields.items()}
