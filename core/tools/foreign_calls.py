"""Calls of other agents' tools whose form differs from ours, not only their names.

A tool with another name alone is an alias in `core/tools/builtin`, an argument with another name alone in the tool's
`argument_names`. Here are the rest: one tool with a command for each operation, lists that whole files or task lists
are made of, a patch that is written as a shell command. A call is translated if it means the same here, and otherwise
left as it is: its name is then unknown, and `explain_missing` says what to do instead.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from posixpath import join, normpath
from typing import Any, Final

from msgspec.structs import replace

from core.patterns import compile_lazily
from core.plans.todo_graph import make_slug
from core.protocol.messages import ToolCall
from core.records import parse_json
from core.tools.builtin import BUILTIN

WINDOW: Final = 100  # The default number of lines that `open_file` returns.
COMMAND, EDIT, EDITS, READ, TODOS = "run_terminal_cmd", "search_replace", "multi_edit", "read_file", "todo_write"
_Arguments = dict[str, Any]
_Translation = tuple[str, _Arguments] | None
_NAME_CHARACTERS: Final = 80
_SHELLS: Final = frozenset(("bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/usr/bin/bash", "/bin/zsh"))
_PATCH_PROGRAMS: Final = frozenset({"apply_patch", "applypatch"})
_HEREDOC: Final = compile_lazily(
    r"\s*(?:cd\s+(?P<directory>'[^']*'|\"[^\"]*\"|[^\s;&|'\"]+)\s*(?:&&|;)\s*)?(?:apply_patch|applypatch)\s*<<-?\s*"
    r"(?P<quote>['\"]?)(?P<word>\w+)(?P=quote)[ \t]*\n(?P<patch>.*?)\n[ \t]*(?P=word)\s*",
    re.DOTALL,
)
_PATCHED: Final = compile_lazily(r"^(\*\*\* (?:(?:Add|Update|Delete) File|Move to): )(.+)$", re.MULTILINE)
_OLD_TEXTS: Final = frozenset(("old_string", "old_str", "old_text", "oldString", "oldText"))
_NUMBERED_PART: Final = compile_lazily(r"(old_str|new_str|insert_line)_(\d+)")


def fold_name(name: str) -> str:
    """Return a name of a tool without its case and its separators."""
    return name[:100].replace("_", "").replace("-", "").lower()


def translate_call(call: ToolCall) -> ToolCall:
    """Translate a call of another agent's tool into one of ours with the same id; other calls are returned
    unchanged."""
    folded_name = fold_name(call.name)
    translate = _TRANSLATIONS.get(folded_name)
    if translate is None and folded_name not in _COMMAND_NAMES:
        return call
    with suppress(ValueError, RecursionError):
        arguments = parse_json(call.arguments or "{}")
        if isinstance(arguments, dict):
            translation = translate(arguments) if translate is not None else None
            name, translated_arguments = translation or (call.name, arguments)
            if fold_name(name) in _COMMAND_NAMES and (patch := _find_patch(translated_arguments)) is not None:
                name, translated_arguments = "apply_patch", {"input": patch}
            elif translation is None:
                return call
            return replace(call, name=name, arguments=json.dumps(translated_arguments, ensure_ascii=False))
    return call


def explain_missing(name: str) -> str:
    """Return what to do instead of calling a tool that other agents have and this one does not, "" = not known."""
    return _INSTEAD.get(fold_name(name), "")


# files


def _open_window(arguments: _Arguments) -> _Translation:
    """Translate a window of a file (SWE-agent, OpenHands)."""
    has_size = any(arguments.get(name) for name in ("limit", "context_lines", "end_line", "view_range"))
    return READ, arguments if has_size else {**arguments, "limit": WINDOW}


def _view(arguments: _Arguments) -> _Translation:
    """Translate `view`: one agent's searches and lists, too, and another's counts lines from 0."""
    match arguments:
        case {"type": "directory", **rest}:
            return "list_dir", _keep(rest, ("path",))
        case {"search_query_regex": str(pattern), **rest}:
            return "grep", {"pattern": pattern, **_drop(rest, ("type", "view_range"))}
        case {"file_path": _, "offset": int(first), **rest}:
            return READ, {**_drop(arguments, ("type",)), "offset": first + 1}
    return READ, _drop(arguments, ("type",))


def _edit_text(arguments: _Arguments) -> _Translation:
    """Translate Anthropic's text editor: one tool with a command for every operation."""
    match arguments.get("command"):
        case "view":
            return READ, _keep(arguments, ("path", "view_range"))
        case "create":
            return "write", {"path": arguments.get("path"), "contents": arguments.get("file_text", "")}
        case "str_replace":
            if numbered_edits := _list_numbered(arguments):
                return EDITS, {"path": arguments.get("path"), "edits": numbered_edits}
            return EDIT, {"new_str": "", **_keep(arguments, ("path", "old_str", "new_str"))}
        case "insert":
            text = next(
                (arguments[name] for name in ("insert_text", "new_str", "new_str_1") if name in arguments), None
            )
            line = next((arguments[name] for name in ("insert_line", "insert_line_1") if name in arguments), None)
            return "insert_lines", {"path": arguments.get("path"), "line": line, "text": text}
    return ("undo_edit", _keep(arguments, ("path",))) if arguments.get("command") == "undo_edit" else None


def _list_numbered(arguments: _Arguments) -> list[_Arguments]:
    """List the edits of an editor that numbers the arguments of each: `old_str_1`, `new_str_1`, `old_str_2` …"""
    edits: dict[str, _Arguments] = {}
    for name, value in arguments.items():
        if part := _NUMBERED_PART.fullmatch(name):
            edits.setdefault(part[2], {})[part[1]] = value
    return [edit for edit in edits.values() if "old_str" in edit]


def _edit_or_insert(arguments: _Arguments) -> _Translation:
    """Translate Cline's editor, which inserts before a line, replaces, or creates a file."""
    path, text = arguments.get("path"), arguments.get("new_text")
    if isinstance(line := arguments.get("insert_line"), int):
        return "insert_lines", {"path": path, "line": line - 1, "text": text}
    return EDIT, {"path": path, "old_string": arguments.get("old_text") or "", "new_string": text}


def _edit(arguments: _Arguments) -> _Translation:
    """Translate an edit by what it holds: several edits, an exact text, a range of lines, or a whole file."""
    edits = arguments.get("edits", arguments.get("edit"))
    if isinstance(edits, dict | list):
        rest = _drop(arguments, ("edits", "edit", "mode") if arguments.get("mode") == "edit" else ("edits", "edit"))
        return EDITS, {**rest, "edits": edits if isinstance(edits, list) else [edits]}
    if not _OLD_TEXTS.isdisjoint(arguments):
        return EDIT, arguments
    match arguments:
        case {"content": str(content), "mode": "write" | "create" | "overwrite", **rest}:
            return "write", {**rest, "contents": content}
        case {"content": str(draft), **rest} if "start" in rest or "end" in rest:
            return "file_edit", {**rest, "draft": draft}
    return None


def _edit_by_name(arguments: _Arguments) -> _Translation:
    """Translate an edit by a tool that always replaces exact texts, or blocks of them."""
    match arguments:
        case {"content": str(blocks), **rest} if "SEARCH" in blocks and _OLD_TEXTS.isdisjoint(rest):
            return "edit_blocks", {**rest, "diff": blocks}
    return _edit(arguments) if isinstance(arguments.get("edits", arguments.get("edit")), dict | list) else None


def _replace_in_one(arguments: _Arguments) -> _Translation:
    """Translate replacements with a file each, if all of them are in one file."""
    replacements = arguments.get("replacements")
    if not isinstance(replacements, list) or not all(isinstance(entry, dict) for entry in replacements):
        return None
    paths = {entry.get("filePath") for entry in replacements}
    if len(paths) != 1:
        return None
    edits = [_keep(entry, ("oldString", "newString")) for entry in replacements]
    return EDITS, {"file_path": paths.pop(), "edits": edits}


def _write(arguments: _Arguments) -> _Translation:
    """Translate a text that is to be appended, and a new file without a content."""
    if arguments.get("mode") == "append":
        return "insert_lines", {**_drop(arguments, ("mode",)), "line": -1}
    if arguments.keys() == {"filename"}:
        return "write", {**arguments, "contents": ""}
    return None


def _run_on_paths(program: str, *names: Sequence[str]) -> Callable[[_Arguments], _Translation]:
    """Return a translation into a command on the paths that these arguments name. Others make it another command."""

    def translate(arguments: _Arguments) -> _Translation:
        keys = [next((name for name in spellings if name in arguments), "") for spellings in names]
        if len(arguments) != len(names) or not all(isinstance(arguments.get(key), str) for key in keys):
            return None
        return COMMAND, {"command": f"{program} {shlex.join(arguments[key] for key in keys)}"}

    return translate


def _delete_one(arguments: _Arguments) -> _Translation:
    match arguments:
        case {"file_paths": [str(path)]}:
            return "delete_file", {"target_file": path}
    return None


# searches and commands


def _search_all(arguments: _Arguments) -> _Translation:
    """Translate a search for several regular expressions at once."""
    queries = arguments.get("queries")
    patterns = [queries] if isinstance(queries, str) else queries
    if not isinstance(patterns, list) or not patterns or not all(isinstance(entry, str) for entry in patterns):
        return None
    pattern = patterns[0] if len(patterns) == 1 else "|".join(f"(?:{entry})" for entry in patterns)
    return "grep", {"pattern": pattern, **_drop(arguments, ("queries",))}


def _fetch_one(arguments: _Arguments) -> _Translation:
    match arguments:
        case {"requests": [{"url": str(), **_rest} as request]}:
            return "web_fetch", request
    return None


def _type_or_look(arguments: _Arguments) -> _Translation:
    """Translate an input for a running command; an empty one only looks at it."""
    return None if arguments.get("chars") else ("read_terminal", _drop(arguments, ("chars", "max_output_tokens")))


def _run_one(arguments: _Arguments) -> _Translation:
    """Translate a list of one command, which may be a program with its arguments."""
    commands = arguments.get("commands", arguments)
    match commands if isinstance(commands, list) else [commands]:
        case [str(command)]:
            return COMMAND, {"command": command, **_drop(arguments, ("commands",))}
        case [{"command": str(program), "args": list(words)}] if all(isinstance(word, str) for word in words):
            return COMMAND, {"command": shlex.join([program, *words])}
        case [{"command": str(command)} as entry] if len(entry) == 1:
            return COMMAND, {"command": command}
    return None


def _find_patch(arguments: _Arguments) -> str | None:
    """Return the patch that a command does nothing but apply; None = it is another command."""
    command = arguments.get("command", arguments.get("cmd"))
    directory = next((arguments[name] for name in ("workdir", "cwd", "working_directory") if arguments.get(name)), "")
    match command:
        case [str(program), str(patch)] if program in _PATCH_PROGRAMS:
            return _move_patch(patch, directory)
        case [str(shell), "-c" | "-lc" | "-cl", str(script)] if shell in _SHELLS:
            command = script
        case str(text) if text.lstrip().startswith("*** Begin Patch"):
            return _move_patch(text, directory)
    if not isinstance(command, str) or (heredoc := _HEREDOC.fullmatch(command)) is None:
        return None
    inner_directory = (heredoc["directory"] or "").strip("'\"")
    return _move_patch(heredoc["patch"], join(directory, inner_directory))


def _move_patch(patch: str, directory: str) -> str:
    """Return a patch whose paths were relative to a directory."""
    if not directory:
        return patch
    return _PATCHED.sub(lambda line: f"{line[1]}{normpath(join(directory, line[2].strip()))}", patch)


# todos and plans


def _update_steps(arguments: _Arguments) -> _Translation:
    """Translate the list of steps of Codex, which is whole in every call."""
    steps = arguments.get("plan")
    if not isinstance(steps, list) or not all(isinstance(step, dict) and "step" in step for step in steps):
        return None
    todos = [{"content": step["step"], "status": step.get("status", "pending")} for step in steps]
    return TODOS, {"todos": todos}


def _list_todos(_: _Arguments) -> _Translation:
    return TODOS, {"todos": []}


def _replace_todos(*names: str) -> Callable[[_Arguments], _Translation]:
    """Return a translation of a whole list of todos under one of these names; without one, the list is only shown."""

    def translate(arguments: _Arguments) -> _Translation:
        key = next((name for name in names if arguments.get(name) is not None), "")
        if not key or arguments.get("action", arguments.get("operation")) in {"read", "view"}:
            return _list_todos(arguments)
        return TODOS, {"todos": arguments[key], "merge": False}

    return translate


def _track_tasks(arguments: _Arguments) -> _Translation:
    """Translate OpenHands' task tracker."""
    if arguments.get("command", "view") == "view":
        return _list_todos(arguments)
    return _replace_todos("task_list")(arguments)


def _create_task(arguments: _Arguments) -> _Translation:
    """Translate one new task. Its id is made of its subject, since the caller reads it in the result."""
    subject = arguments.get("subject", arguments.get("title"))
    if not isinstance(subject, str) or not subject.strip():
        return None
    rest = _drop(arguments, ("subject", "title", "metadata", "type"))
    return TODOS, {"todos": [{"id": make_slug(subject), "title": subject, **rest}], "merge": True}


def _update_task(arguments: _Arguments) -> _Translation:
    """Translate a change of one task."""
    own_names = {"taskId": "id", "subject": "title", "addBlockedBy": "dependencies"}
    renamed = {own_names.get(name, name): value for name, value in arguments.items() if name not in _TASK_REMARKS}
    return TODOS, {"todos": [renamed], "merge": True}


def _list_tasks(arguments: _Arguments) -> _Translation:
    """Translate `TaskList`: that of another agent shows what runs in the background."""
    is_of_jobs = not arguments.keys().isdisjoint(("active_only", "limit"))
    return ("read_terminal", {}) if is_of_jobs else _list_todos(arguments)


def _change_tasks(arguments: _Arguments) -> _Translation:
    """Translate Augment's lists of new or changed tasks."""
    match arguments.get("tasks"):
        case [*tasks] if tasks and all(isinstance(task, dict) for task in tasks):
            return TODOS, {"todos": [_rename_task(task) for task in tasks], "merge": True}
    return None


def _rename_task(task: _Arguments) -> _Arguments:
    own_names = {"task_id": "id", "name": "title", "state": "status"}
    renamed = {own_names.get(name, name): value for name, value in task.items()}
    return {"id": make_slug(str(renamed.get("title", ""))), **renamed}


def _write_plan(arguments: _Arguments) -> _Translation:
    """Translate the plan that Claude Code's models hand in at the end of planning."""
    plan = arguments.get("plan")
    if not isinstance(plan, str) or not plan.strip():
        return None
    title = plan.strip().split("\n", 1)[0].strip("# ").removeprefix("Plan:").strip()[:_NAME_CHARACTERS]
    return "create_plan", {"name": title or "Plan", "overview": "", "plan": plan}


# subagents


def _give_task(arguments: _Arguments) -> _Translation:
    """Translate a task with a mode of its own: one that only plans or answers writes nothing."""
    mode = arguments.get("mode")
    if not isinstance(mode, str):
        return None
    todos = arguments.get("todos")
    prompt = arguments.get("prompt", arguments.get("message"))
    rest = _drop(arguments, ("mode", "todos", "message", "prompt"))
    text = f"{prompt}\n\n{todos}" if isinstance(todos, str) and todos.strip() else prompt
    return "task", {**rest, "prompt": text, "readonly": mode in {"plan", "ask", "architect"}}


def _consult(arguments: _Arguments) -> _Translation:
    """Translate a question to an advisor, with what it is to look at."""
    files = arguments.get("files")
    names = ", ".join(map(str, files)) if isinstance(files, list) else ""
    parts = (arguments.get("task"), arguments.get("context"), f"Files: {names}" if names else "")
    prompt = "\n\n".join(part for part in parts if isinstance(part, str) and part)
    return "task", {"prompt": prompt, "readonly": True}


def _search_by_agent(arguments: _Arguments) -> _Translation:
    parts = [part for name in ("query", "details") if isinstance(part := arguments.get(name), str) and part]
    rest = _drop(arguments, ("query", "details"))
    return "task", {**rest, "prompt": "\n\n".join(parts), "subagent_type": "explore"}


def _keep(arguments: _Arguments, names: Iterable[str]) -> _Arguments:
    return {name: arguments[name] for name in names if arguments.get(name) is not None}


def _drop(arguments: _Arguments, names: Iterable[str]) -> _Arguments:
    return {name: value for name, value in arguments.items() if name not in names}


_TASK_REMARKS: Final = frozenset(("activeForm", "owner", "metadata", "type"))
_PATHS: Final = ("path", "dir_path", "dirPath", "directory_path")
_COMMAND_NAMES: Final = frozenset(
    fold_name(name) for tool in BUILTIN if tool.name == COMMAND for name in (tool.name, *tool.aliases)
)
_TRANSLATIONS: Final[Mapping[str, Callable[[_Arguments], _Translation]]] = {
    fold_name(name): translate
    for names, translate in (
        (("open_file", "open"), _open_window),
        (("view",), _view),
        (
            (
                *("str_replace_editor", "str_replace_based_edit_tool", "str_replace_based_edit", "file_editor"),
                "text_editor",
            ),
            _edit_text,
        ),
        (("editor",), _edit_or_insert),
        (("edit_file",), _edit),
        (("edit", "search_replace", "str_replace", "replace", "str_replace_file"), _edit_by_name),
        (("multi_replace_string_in_file",), _replace_in_one),
        (("write", "write_file", "create", "create_file"), _write),
        (("create_directory", "make_directory", "mkdir"), _run_on_paths("mkdir -p", _PATHS)),
        (
            ("move_path", "rename_path", "move_file", "rename_file"),
            _run_on_paths(
                "mv -n", ("source_path", "old_path", "source"), ("destination_path", "new_path", "destination")
            ),
        ),
        (
            ("copy_path", "copy_file"),
            _run_on_paths("cp -rn", ("source_path", "source"), ("destination_path", "destination")),
        ),
        (("remove_files", "delete_files"), _delete_one),
        (("search_codebase",), _search_all),
        (("fetch_web_content",), _fetch_one),
        (("run_commands",), _run_one),
        (("write_stdin",), _type_or_look),
        (("update_plan",), _update_steps),
        (("todo_read", "todoread", "view_tasklist", "task_get", "tracker_list_tasks", "tracker_get_task"), _list_todos),
        (("set_todo_list", "write_todos", "todos", "todo", "update_todo_list"), _replace_todos("todos")),
        (("manage_todo_list",), _replace_todos("todoList", "todo_list")),
        (("checklist",), _replace_todos("checklist")),
        (("reorganize_tasklist",), _replace_todos("markdown")),
        (("task_tracker",), _track_tasks),
        (("task_create", "tracker_create_task"), _create_task),
        (("task_update", "tracker_update_task"), _update_task),
        (("task_list",), _list_tasks),
        (("add_tasks", "update_tasks"), _change_tasks),
        (("exit_plan_mode",), _write_plan),
        (("enter_plan_mode", "plan_enter"), lambda arguments: ("switch_mode", {"target_mode_id": "plan", **arguments})),
        (("plan_exit",), lambda arguments: ("switch_mode", {"target_mode_id": "agent", **arguments})),
        (("new_task", "agent"), _give_task),
        (("oracle",), _consult),
        (("search_subagent",), _search_by_agent),
    )
    for name in names
}
_NO_BROWSER: Final = "There is no browser among your tools. web_fetch reads a page."
_NO_SCHEDULE: Final = "Nothing can be scheduled here. A command in the background runs on while you work."
_NO_AGENTS: Final = "A subagent of `task` ends with its one report; give it all it needs, or resume it by its id."
_NO_RESOURCES: Final = "Resources of MCP servers are attached by the user. Ask for what you need."
_NO_WORKTREE: Final = "You already work apart from the user's files: your changes wait for their review."
_ONE_CALL: Final = "Make a call for each, in one message."
_INSTEAD: Final[Mapping[str, str]] = {
    fold_name(name): advice
    for names, advice in (
        (
            ("exit_plan_mode",),
            "Hand your plan in with create_plan: its name, overview and text. The user decides then.",
        ),
        (("run_commands", "multi_replace_string_in_file", "remove_files", "fetch_web_content"), _ONE_CALL),
        (("batch", "parallel", "multi_tool_use_parallel"), "Make the calls themselves, in one message."),
        (
            ("memory", "create_memory", "resolve_memory_file_uri"),
            "propose_memory proposes one note about the project to the user.",
        ),
        (("cron_create", "cron_list", "cron_delete", "schedule_wakeup", "monitor", "scheduler"), _NO_SCHEDULE),
        (("enter_worktree", "exit_worktree"), _NO_WORKTREE),
        (("send_input", "send_message", "wait_agent", "close_agent", "list_agents", "followup_task"), _NO_AGENTS),
        (
            (
                *("list_mcp_resources", "read_mcp_resource", "access_mcp_resource", "read_mcp_resource_dir"),
                "list_resources",
            ),
            _NO_RESOURCES,
        ),
        (("browser_action", "browser_preview", "open_browser", "open_browser_page", "browser"), _NO_BROWSER),
        (
            ("run_notebook_cell", "read_notebook_cell_output", "notebook_summary"),
            "read_file shows a notebook's cells and outputs; a command (jupyter nbconvert --execute) runs it.",
        ),
        (
            ("lsp", "lsp_call_hierarchy", "lsp_symbols"),
            "Use find_definition and find_references, with path and symbol.",
        ),
        (("insert",), "Edit with the file's path: search_replace, or insert lines by a replacement of a line."),
        (("reapply",), "Make the edit again, with a line before and after each change, or with search_replace."),
        (("get_changed_files", "view_diff", "diff"), "Run git diff; a reminder names your pending changes."),
        (("request_permissions",), "Ask with required_permissions of the command that needs it."),
    )
    for name in names
}
