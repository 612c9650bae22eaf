"""All tools, in one fixed order, so that the list a model is sent never changes; found by name or by a known alias."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, cast

from core.edit_formats import EDIT_TOOLS, SEARCH_REPLACE, EditFormat
from core.errors import ToolInputInvalid
from core.modes import Mode
from core.providers.base import ToolSpec
from core.text.similarity import find_nearest_names
from core.tools.arguments import convert_arguments
from core.tools.base import Tool, ToolType
from core.tools.edit_format_choice import OFFERED
from core.tools.schema import build_offered_schema, describe_schema

EDITOR = SEARCH_REPLACE.name  # its place in the list is that of whichever edit format is offered
# Where the class of each tool stands. The order is part of every request's prefix: append only.
_CLASSES = {
    "read_file": "core.tools.builtin.reading.read_file:ReadFile",
    "list_dir": "core.tools.builtin.reading.list_dir:ListDir",
    "grep": "core.tools.builtin.reading.grep:Grep",
    "glob_file_search": "core.tools.builtin.reading.glob_file_search:GlobFileSearch",
    EDITOR: SEARCH_REPLACE.location,
    "write": "core.tools.builtin.editing.write:WriteTool",
    "delete_file": "core.tools.builtin.editing.delete_file:DeleteFile",
    "run_terminal_cmd": "core.tools.builtin.terminal.run_terminal_cmd:RunTerminalCmd",
    "create_plan": "core.tools.builtin.planning.create_plan:CreatePlan",
    "todo_write": "core.tools.builtin.planning.todo_write:TodoWrite",
    "ask_question": "core.tools.builtin.planning.ask_question:AskQuestion",
    "switch_mode": "core.tools.builtin.planning.switch_mode:SwitchMode",
    "read_terminal": "core.tools.builtin.terminal.read_terminal:ReadTerminal",
    "write_terminal": "core.tools.builtin.terminal.write_terminal:WriteTerminal",
    "stop_terminal": "core.tools.builtin.terminal.stop_terminal:StopTerminal",
    "read_lints": "core.tools.builtin.reading.read_lints:ReadLints",
    "update_plan": "core.tools.builtin.planning.update_plan:UpdatePlan",
    "hypotheses_set": "core.tools.builtin.debugging.hypotheses_set:HypothesesSetTool",
    "hypothesis_verdict": "core.tools.builtin.debugging.hypothesis_verdict:HypothesisVerdict",
    "probe_add": "core.tools.builtin.debugging.probe_add:ProbeAdd",
    "probe_remove": "core.tools.builtin.debugging.probe_remove:ProbeRemove",
    "reproduce": "core.tools.builtin.debugging.reproduce:Reproduce",
    "read_probe_log": "core.tools.builtin.debugging.read_probe_log:ReadProbeLog",
    "call_tool": "core.tools.call_tool:CallTool",
}
# Not in the list, which is paid for in every request: what a mode alone needs. It is described with that mode, and
# called through `call_tool`.
DEFERRED: Mapping[str, tuple[str, ...]] = {mode.value: mode.rules.tools for mode in Mode if mode.rules.tools}
# The list of a model whose window is small; its other tools are called through `call_tool`, too.
SHORTLIST = ("read_file", "list_dir", "grep", "search_replace", "write", "run_terminal_cmd", "call_tool")
LISTED = tuple(name for name in _CLASSES if not any(name in names for names in DEFERRED.values()))
# Found like the others, but not in the list by themselves: what a dialect without function calls has words of its own
# for, and the edit formats, of which each model is offered one (`core/edit_formats.py`).
IN_TEXT = {
    "run_python": "core.tools.builtin.terminal.run_python:RunPython",
    **{tool.name: tool.location for tool in EDIT_TOOLS if tool is not SEARCH_REPLACE},
}
ALIASES: Mapping[str, str] = {
    "Read": "read_file",
    "ReadFile": "read_file",
    "view_file": "read_file",
    "LS": "list_dir",
    "list_directory": "list_dir",
    "Grep": "grep",
    "grep_search": "grep",
    "Glob": "glob_file_search",
    "glob": "glob_file_search",
    "ReadLints": "read_lints",
    "Write": "write",
    "write_file": "write",
    "create_file": "write",
    "Delete": "delete_file",
    "Shell": "run_terminal_cmd",
    "Bash": "run_terminal_cmd",
    "run_terminal_command": "run_terminal_cmd",
    "CallTool": "call_tool",
    "CreatePlan": "create_plan",
    "UpdatePlan": "update_plan",
    "edit_plan": "update_plan",
    "TodoWrite": "todo_write",
    "AskQuestion": "ask_question",
    "SwitchMode": "switch_mode",
    "list_terminals": "read_terminal",
    "BashOutput": "read_terminal",
    "KillShell": "stop_terminal",
    "KillBash": "stop_terminal",
    **{alias: tool.name for tool in EDIT_TOOLS for alias in tool.aliases},
}


_ALL = {**_CLASSES, **IN_TEXT}


class _Tools(Mapping[str, ToolType]):
    """Tool classes by name; a tool's module is imported when it is asked for."""

    def __getitem__(self, name: str) -> ToolType:
        module, _, tool = _ALL[name].partition(":")  # a name that a model made up loads no module
        return cast(ToolType, getattr(import_module(module), tool))

    def __iter__(self) -> Iterator[str]:
        return iter(_ALL)

    def __len__(self) -> int:
        return len(_ALL)


TOOLS: Mapping[str, ToolType] = _Tools()


def find_tool(name: str) -> ToolType:
    """The tool of that name or alias; `ToolInputInvalid` that names near ones."""
    own = ALIASES.get(name, name)
    if own in _ALL:
        return TOOLS[own]
    near = find_nearest_names(name[:100], _CLASSES)
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    raise ToolInputInvalid(
        f"There is no tool {name[:100]!r}.", hint=f"{hint}The tools are: {', '.join(_CLASSES)}.", code="tool_unknown"
    )


def parse_call(name: str, arguments_json: str) -> Tool[Any]:
    """A checked call, ready to run. `ToolInputInvalid` says what is wrong in words that a model can act on."""
    return convert_arguments(find_tool(name), arguments_json)


def tool_specs(
    load_text: Callable[[str], str], edits: EditFormat = "search_replace", names: Sequence[str] = LISTED
) -> tuple[ToolSpec, ...]:
    """What a model is told of the tools; `load_text(name)` gives the text of a tool. Of the tools that edit a file the
    one of the format `edits` is in the list, under the name that models know it by."""
    named = [OFFERED[edits] if name == EDITOR else (name, name) for name in names]
    return tuple(
        ToolSpec(
            name=name,
            description=load_text(own),
            parameters=build_offered_schema(TOOLS[own]),
            freeform=TOOLS[own].freeform,
        )
        for name, own in named
    )


def describe_tool(name: str, text: str) -> str:
    """A tool in prose, for a model that is told of it outside of the list: its text and a line for each argument."""
    schema = build_offered_schema(TOOLS[name])
    needed = schema.get("required", ())
    lines = [
        f"- {key} ({describe_schema(each)}{'' if key in needed else ', optional'}): {each['description']}"
        for key, each in schema["properties"].items()
    ]
    return "\n".join([text, *(["Arguments:", *lines] if lines else [])])
