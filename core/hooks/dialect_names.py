"""The names of events and tools in both hook dialects, and the effects of answers by event.

Cursor's spelling names the events here; events of Claude Code alone, or of this program, are spelled alike. Tools have
names and arguments in both dialects, so that unmodified scripts work. For Claude's hooks a deletion is a `Write` of
nothing: that agent has no tool for it, and a hook that guards a file must be asked about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct

Dialect = Literal["own", "cursor", "claude"]


class HookEvent(StrEnum):
    """A moment at which hooks run."""

    SESSION_START = "sessionStart"
    SESSION_END = "sessionEnd"
    BEFORE_PROMPT = "beforeSubmitPrompt"
    PRE_TOOL = "preToolUse"
    PERMISSION_REQUEST = "permissionRequest"
    POST_TOOL = "postToolUse"
    POST_FAILURE = "postToolUseFailure"
    BEFORE_SHELL = "beforeShellExecution"
    AFTER_SHELL = "afterShellExecution"
    BEFORE_MCP = "beforeMCPExecution"
    AFTER_MCP = "afterMCPExecution"
    BEFORE_READ = "beforeReadFile"
    AFTER_EDIT = "afterFileEdit"
    SUBAGENT_START = "subagentStart"
    SUBAGENT_STOP = "subagentStop"
    AFTER_RESPONSE = "afterAgentResponse"
    PRE_COMPACT = "preCompact"
    POST_COMPACT = "postCompact"
    STOP = "stop"
    NOTIFICATION = "notification"
    BEFORE_PROMOTE = "beforePromote"
    AFTER_PROMOTE = "afterPromote"


class EventRules(Struct, frozen=True, kw_only=True):
    """The rules of an event. `claude`: its name in Claude Code, "" = it has none. `blocks`: an answer can refuse the
    action; `continues`: a refusal makes the agent continue. `takes_text`: plain text from Claude's hooks is passed to
    the model. `seconds`: default time limit of a hook."""

    claude: str = ""
    blocks: bool = False
    continues: bool = False
    takes_text: bool = False
    seconds: float = 60.0


RULES: Final = {
    HookEvent.SESSION_START: EventRules(claude="SessionStart", takes_text=True),
    HookEvent.SESSION_END: EventRules(claude="SessionEnd", seconds=5.0),
    HookEvent.BEFORE_PROMPT: EventRules(claude="UserPromptSubmit", blocks=True, takes_text=True, seconds=30.0),
    HookEvent.PRE_TOOL: EventRules(claude="PreToolUse", blocks=True),
    HookEvent.PERMISSION_REQUEST: EventRules(claude="PermissionRequest", blocks=True),
    HookEvent.POST_TOOL: EventRules(claude="PostToolUse"),
    HookEvent.POST_FAILURE: EventRules(claude="PostToolUseFailure"),
    HookEvent.BEFORE_SHELL: EventRules(blocks=True),
    HookEvent.AFTER_SHELL: EventRules(),
    HookEvent.BEFORE_MCP: EventRules(blocks=True),
    HookEvent.AFTER_MCP: EventRules(),
    HookEvent.BEFORE_READ: EventRules(blocks=True),
    HookEvent.AFTER_EDIT: EventRules(),
    HookEvent.SUBAGENT_START: EventRules(claude="SubagentStart", blocks=True, takes_text=True),
    HookEvent.SUBAGENT_STOP: EventRules(claude="SubagentStop", continues=True),
    HookEvent.AFTER_RESPONSE: EventRules(),
    HookEvent.PRE_COMPACT: EventRules(claude="PreCompact", blocks=True),
    HookEvent.POST_COMPACT: EventRules(claude="PostCompact"),
    HookEvent.STOP: EventRules(claude="Stop", continues=True),
    HookEvent.NOTIFICATION: EventRules(claude="Notification"),
    HookEvent.BEFORE_PROMOTE: EventRules(blocks=True, seconds=300.0),
    HookEvent.AFTER_PROMOTE: EventRules(seconds=300.0),
}
# Events of Cursor and Claude Code that are never raised here, for a better message than "unknown".
NOT_RAISED: Final = frozenset(
    {
        "afterAgentThought",
        "beforeTabFileRead",
        "afterTabFileEdit",
        "workspaceOpen",
        "PermissionDenied",
        "PostToolBatch",
        "InstructionsLoaded",
        "FileChanged",
        "ConfigChange",
        "CwdChanged",
        "Elicitation",
        "ElicitationResult",
        "Setup",
        "StopFailure",
        "TaskCreated",
        "TaskCompleted",
        "TeammateIdle",
        "UserPromptExpansion",
        "WorktreeCreate",
        "WorktreeRemove",
    }
)
EVENTS_BY_NAME: Final = {
    **{event.value: event for event in HookEvent},
    **{rules.claude: event for event, rules in RULES.items() if rules.claude},
}


def get_native_name(event: HookEvent, dialect: Dialect) -> str:
    """Return the name of an event in a dialect."""
    return (RULES[event].claude or event.value) if dialect == "claude" else event.value


class ForeignTool(Struct, frozen=True):
    """A tool's names in both dialects. `arguments`: our argument names mapped to theirs."""

    cursor: str
    claude: str
    arguments: Mapping[str, str] = {}


_FILE: Final = {"target_file": "file_path", "path": "file_path"}
_FOREIGN: Final = {
    "run_terminal_cmd": ForeignTool(
        "Shell", "Bash", {"explanation": "description", "is_background": "run_in_background"}
    ),
    "run_python": ForeignTool("Shell", "Bash"),
    "run_code": ForeignTool("Shell", "Bash"),
    "read_file": ForeignTool("Read", "Read", _FILE),
    "read_many_files": ForeignTool("Read", "Read"),
    "list_dir": ForeignTool("LS", "LS", {"relative_workspace_path": "path"}),
    "glob_file_search": ForeignTool("Glob", "Glob", {"glob_pattern": "pattern", "target_directory": "path"}),
    "grep": ForeignTool("Grep", "Grep", {"include_pattern": "glob"}),
    "codebase_search": ForeignTool("SemanticSearch", "Grep"),
    "search_replace": ForeignTool("Write", "Edit"),
    "edit_file": ForeignTool("Write", "Edit", _FILE),
    "multi_edit": ForeignTool("Write", "MultiEdit"),
    "apply_patch": ForeignTool("Write", "Edit"),
    "edit_blocks": ForeignTool("Write", "Edit"),
    "file_edit": ForeignTool("Write", "Edit", _FILE),
    "insert_lines": ForeignTool("Write", "Edit"),
    "undo_edit": ForeignTool("Write", "Edit"),
    "rename_symbol": ForeignTool("Write", "Edit", _FILE),
    "write": ForeignTool("Write", "Write", {"contents": "content"}),
    "delete_file": ForeignTool("Delete", "Write", _FILE),
    "edit_notebook": ForeignTool("Write", "NotebookEdit", {"target_notebook": "notebook_path"}),
    "todo_write": ForeignTool("TodoWrite", "TodoWrite"),
    "task": ForeignTool("Task", "Task"),
    "web_fetch": ForeignTool("WebFetch", "WebFetch"),
    "web_search": ForeignTool("WebSearch", "WebSearch"),
    "activate_skill": ForeignTool("Skill", "Skill", {"name": "skill", "arguments": "args"}),
    "ask_question": ForeignTool("AskQuestion", "AskUserQuestion"),
}
_TASK_NAMES: Final = ("Agent",)
KNOWN_NAMES: Final = frozenset(
    {*_TASK_NAMES, *_FOREIGN, *(name for tool in _FOREIGN.values() for name in (tool.cursor, tool.claude))}
)
_PATH_ARGUMENTS: Final = ("file_path", "path", "notebook_path")


def get_foreign_tool(name: str) -> ForeignTool:
    """Return a tool's names in both dialects; tools without an equivalent have their own name."""
    if (foreign_tool := _FOREIGN.get(name)) is not None:
        return foreign_tool
    if name.startswith("mcp__"):
        return ForeignTool(f"MCP:{name.removeprefix('mcp__').partition('__')[2]}", name)
    return ForeignTool(name, name)


def list_tool_names(name: str) -> tuple[str, ...]:
    """Return all names by which a matcher may refer to a tool."""
    foreign = get_foreign_tool(name)
    also = _TASK_NAMES if name == "task" else ()
    return tuple(dict.fromkeys((foreign.cursor, foreign.claude, *also, name)))


def build_tool_input(
    name: str, arguments: Mapping[str, Any], dialect: Dialect, root: Path, path: str = ""
) -> dict[str, Any]:
    """Build `tool_input`: the arguments under the names of the dialects, with absolute paths. `path`: the file in
    question, if the call names several."""
    names = get_foreign_tool(name).arguments
    tool_input = {names.get(key, key): value for key, value in arguments.items()}
    if name in {"apply_patch", "edit_file", "read_many_files"} and path:
        tool_input.setdefault("file_path", path)
    if name == "delete_file" and dialect == "claude":
        tool_input["content"] = ""
    for key in _PATH_ARGUMENTS:
        if isinstance(value := tool_input.get(key), str) and value and key in _list_path_keys(name):
            tool_input[key] = str(root / (path if path and key == "file_path" else value))
    return tool_input


def _list_path_keys(name: str) -> tuple[str, ...]:
    foreign = get_foreign_tool(name)
    return _PATH_ARGUMENTS if not name.startswith("mcp__") and foreign.cursor != name else ()


def restore_arguments(name: str, changed_input: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call from a hook's changed `tool_input`; omitted ones remain unchanged.

    The tool itself accepts the dialects' argument names; Claude's time limit of a command is in milliseconds.
    """
    names = {foreign: own_name for own_name, foreign in get_foreign_tool(name).arguments.items() if own_name in before}
    changed_arguments = {names.get(key, key): value for key, value in changed_input.items()}
    if name == "run_terminal_cmd" and isinstance(limit := changed_arguments.get("timeout"), int) and limit > 600:
        changed_arguments["timeout"] = min(limit // 1000, 600)
    return {**before, **changed_arguments}
