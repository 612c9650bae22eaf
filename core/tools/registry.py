"""All tools, in one fixed order, so that the list a model is sent never changes; found by name or by a known alias."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, cast

from core.config import EditFormat
from core.edits.similarity import nearest_names
from core.errors import ToolInputInvalid
from core.providers.base import ToolSpec
from core.tools.arguments import convert
from core.tools.base import Tool, ToolType
from core.tools.offers import OFFERED
from core.tools.schema import in_words, offered

# Name (also of the module) and class. The order is part of every request's prefix: append only.
_CLASSES = {
    "read_file": "ReadFile",
    "list_dir": "ListDir",
    "grep": "Grep",
    "glob_file_search": "GlobFileSearch",
    "search_replace": "SearchReplace",
    "write": "Write",
    "delete_file": "DeleteFile",
    "run_terminal_cmd": "RunTerminalCmd",
    "create_plan": "CreatePlan",
    "todo_write": "TodoWrite",
    "ask_question": "AskQuestion",
    "switch_mode": "SwitchMode",
    "read_terminal": "ReadTerminal",
    "write_terminal": "WriteTerminal",
    "stop_terminal": "StopTerminal",
    "read_lints": "ReadLints",
    "update_plan": "UpdatePlan",
    "hypotheses_set": "HypothesesSet",
    "hypothesis_verdict": "HypothesisVerdict",
    "probe_add": "ProbeAdd",
    "probe_remove": "ProbeRemove",
    "reproduce": "Reproduce",
    "read_probe_log": "ReadProbeLog",
    "call_tool": "CallTool",
}
# Not in the list, which is paid for in every request: what a mode alone needs. It is described with that mode, and
# called through `call_tool`.
DEFERRED: Mapping[str, tuple[str, ...]] = {
    "plan": ("update_plan",),
    "debug": (
        "hypotheses_set",
        "hypothesis_verdict",
        "probe_add",
        "probe_remove",
        "reproduce",
        "read_probe_log",
    ),
}
# The list of a model whose window is small; its other tools are called through `call_tool`, too.
SHORTLIST = ("read_file", "list_dir", "grep", "search_replace", "write", "run_terminal_cmd", "call_tool")
LISTED = tuple(name for name in _CLASSES if not any(name in names for names in DEFERRED.values()))
# Found like the others, but not in the list by themselves: what a dialect without function calls has words of its own
# for, and the edit formats, of which each model is offered one (`offers`).
IN_TEXT = {
    "edit_blocks": "EditBlocks",
    "run_python": "RunPython",
    "multi_edit": "MultiEdit",
    "apply_patch": "ApplyPatch",
    "edit_file": "EditFile",
    "file_edit": "FileEdit",
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
    "StrReplace": "search_replace",
    "str_replace": "search_replace",
    "Edit": "search_replace",
    "ReadLints": "read_lints",
    "MultiEdit": "multi_edit",
    "multi_str_replace": "multi_edit",
    "editTool": "edit_blocks",
    "replace_in_file": "edit_blocks",
    "ApplyPatch": "apply_patch",
    "EditFile": "edit_file",
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
}


EDITOR = "search_replace"  # its place in the list is that of whichever edit format is offered
_ALL = {**_CLASSES, **IN_TEXT}


class _Tools(Mapping[str, ToolType]):
    """Tool classes by name; a tool's module is imported when it is asked for."""

    def __getitem__(self, name: str) -> ToolType:
        tool = _ALL[name]  # before the import: a name that a model made up must not load a module
        return cast(ToolType, getattr(import_module(f"core.tools.{name}"), tool))

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
    near = nearest_names(name[:100], _CLASSES)
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    raise ToolInputInvalid(
        f"There is no tool {name[:100]!r}.", hint=f"{hint}The tools are: {', '.join(_CLASSES)}.", code="tool_unknown"
    )


def parse_call(name: str, arguments_json: str) -> Tool[Any]:
    """A checked call, ready to run. `ToolInputInvalid` says what is wrong in words that a model can act on."""
    return convert(find_tool(name), arguments_json)


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
            parameters=offered(TOOLS[own]),
            freeform=TOOLS[own].freeform,
        )
        for name, own in named
    )


def described(name: str, text: str) -> str:
    """A tool in prose, for a model that is told of it outside of the list: its text and a line for each argument."""
    schema = offered(TOOLS[name])
    needed = schema.get("required", ())
    lines = [
        f"- {key} ({in_words(each)}{'' if key in needed else ', optional'}): {each['description']}"
        for key, each in schema["properties"].items()
    ]
    return "\n".join([text, *(["Arguments:", *lines] if lines else [])])
