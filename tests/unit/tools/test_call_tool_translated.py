"""Calls as models write them that know the tools of other agents: each is understood, or refused in words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.errors import ToolInputInvalid
from core.protocol.messages import AssistantMessage, ToolCall
from core.tools.base import Tool
from core.tools.builtin import BUILTIN
from core.tools.builtin.dialogue import AskQuestion
from core.tools.call_tool import resolve_scroll, unwrap_call
from core.tools.foreign_calls import translate_call
from core.tools.toolset import Toolset

TOOLS = Toolset()
READ, GREP, RUN, ASK = "read_file", "grep", "run_terminal_cmd", "ask_question"
EDIT = {"old_string": "a", "new_string": "b"}

CLAUDE = [
    ("Read", {"file_path": "a", "offset": 10, "limit": 20}, READ, {"offset": 10, "limit": 20}),
    ("Read", {"file_path": "a.pdf", "pages": "1-5"}, READ, {"target_file": "a.pdf"}),
    ("Edit", {"file_path": "a", **EDIT, "replace_all": True}, "search_replace", {"replace_all": True}),
    ("MultiEdit", {"file_path": "a", "edits": [EDIT]}, "multi_edit", {"file_path": "a"}),
    ("Write", {"file_path": "a", "content": "x"}, "write", {"contents": "x"}),
    ("Bash", {"command": "ls", "timeout": 120000, "description": "List"}, RUN, {"timeout": 120, "explanation": "List"}),
    ("Bash", {"command": "ls", "timeout": 600000}, RUN, {"timeout": 600}),
    ("Bash", {"command": "ls", "run_in_background": True}, RUN, {"is_background": True}),
    ("Bash", {"command": "ls", "dangerouslyDisableSandbox": True}, RUN, {"required_permissions": ("all",)}),
    ("Bash", {"command": "ls", "dangerouslyDisableSandbox": False}, RUN, {"required_permissions": ()}),
    ("BashOutput", {"bash_id": "job_1", "filter": "err"}, "read_terminal", {"job": "job_1"}),
    ("TaskOutput", {"task_id": "job_1", "block": True, "timeout": 30000}, "read_terminal", {"wait": 30}),
    ("TaskOutput", {"task_id": "job_1", "block": False, "timeout": 30000}, "read_terminal", {"wait": 0}),
    ("KillShell", {"shell_id": "job_1"}, "stop_terminal", {"job": "job_1"}),
    ("TaskStop", {"task_id": "job_1"}, "stop_terminal", {"job": "job_1"}),
    (
        "Grep",
        {"pattern": "x", "glob": "*.py", "-n": True, "-i": True, "-A": 3, "-B": 2, "multiline": True, "type": "py"},
        GREP,
        {"ignore_case": True, "after_context": 3, "before_context": 2, "multiline": True, "file_type": "py"},
    ),
    (
        "Grep",
        {"pattern": "x", "output_mode": "files_with_matches", "-C": "1", "-o": True, "head_limit": 5, "offset": 10},
        GREP,
        {"output_mode": "files_with_matches", "context": 1, "head_limit": 5, "offset": 10},
    ),
    ("Glob", {"pattern": "**/*.py", "path": "src"}, "glob_file_search", {"target_directory": "src"}),
    ("LS", {"path": "src", "ignore": ["*.svg"]}, "list_dir", {"ignore_globs": ("*.svg",)}),
    ("Task", {"description": "d", "prompt": "p", "subagent_type": "Explore"}, "task", {"subagent_type": "Explore"}),
    ("Agent", {"description": "d", "prompt": "p", "isolation": "worktree", "name": "x"}, "task", {"prompt": "p"}),
    ("WebFetch", {"url": "https://e.org", "prompt": "p"}, "web_fetch", {"prompt": "p"}),
    ("WebSearch", {"query": "q", "allowed_domains": ["a.org"]}, "web_search", {"allowed_domains": ("a.org",)}),
    ("NotebookRead", {"notebook_path": "a.ipynb"}, READ, {"target_file": "a.ipynb"}),
    (
        "NotebookEdit",
        {"notebook_path": "a.ipynb", "cell_id": "x", "new_source": "y", "cell_type": "code", "edit_mode": "replace"},
        "edit_notebook",
        {"cell_id": "x", "new_source": "y", "edit_mode": "replace"},
    ),
    ("ExitPlanMode", {"plan": "# Move it\n\nFirst …"}, "create_plan", {"title": "Move it"}),
    ("EnterPlanMode", {}, "switch_mode", {"target_mode_id": "plan"}),
    ("ToolSearch", {"query": "q", "max_results": 5}, "search_tools", {"query": "q"}),
    ("Skill", {"skill": "pdf", "args": "a"}, "activate_skill", {"skill": "pdf", "arguments": "a"}),
    ("str_replace_editor", {"command": "view", "path": "a", "view_range": [3, 7]}, READ, {"offset": 3, "limit": 5}),
    ("str_replace_based_edit_tool", {"command": "create", "path": "a", "file_text": "x"}, "write", {"contents": "x"}),
    (
        "str_replace_based_edit_tool",
        {"command": "str_replace", "path": "a", "old_str": "b", "new_str": "c"},
        "search_replace",
        {"old_string": "b", "new_string": "c"},
    ),
]
CURSOR = [
    ("read_file", {"target_file": "a", "should_read_entire_file": True, "explanation": "e"}, READ, {"limit": 0}),
    (
        "read_file",
        {"relative_workspace_path": "a", "start_line_one_indexed": 10, "end_line_one_indexed_inclusive": 20},
        READ,
        {"target_file": "a", "offset": 10, "limit": 11},
    ),
    (
        "codebase_search",
        {"query": "q", "target_directories": ["src/"], "explanation": "e", "num_results": 5},
        "codebase_search",
        {"target_directories": ("src/",)},
    ),
    (
        "grep_search",
        {"query": "x", "include_pattern": "*.py", "case_sensitive": False},
        GREP,
        {"case_sensitive": False},
    ),
    ("file_search", {"query": "app.py", "explanation": "e"}, "glob_file_search", {"glob_pattern": "app.py"}),
    ("list_dir", {"relative_workspace_path": ".", "explanation": "e"}, "list_dir", {"relative_workspace_path": "."}),
    ("edit_file", {"target_file": "a", "instructions": "i", "code_edit": "c", "blocking": True}, "edit_file", {}),
    ("StrReplace", {"path": "a", **EDIT}, "search_replace", {"file_path": "a"}),
    ("Delete", {"path": "a"}, "delete_file", {"target_file": "a"}),
    ("run_terminal_cmd", {"command": "ls", "is_background": False, "require_user_approval": True}, RUN, {}),
    ("Shell", {"command": "ls", "working_directory": "a b"}, RUN, {"working_directory": "a b"}),
    ("Shell", {"command": "ls", "block_until_ms": 0}, RUN, {"is_background": True}),
    ("Shell", {"command": "ls", "block_until_ms": 30000}, RUN, {"is_background": False, "timeout": 0}),
    ("Shell", {"command": "ls", "required_permissions": "full_network"}, RUN, {"required_permissions": ("network",)}),
    ("Shell", {"command": "ls", "required_permissions": '["all"]'}, RUN, {"required_permissions": ("all",)}),
    (
        "Shell",
        {"command": "ls", "required_permissions": ["127.0.0.1:80"]},
        RUN,
        {"required_permissions": ("localhost:80",)},
    ),
    ("fetch_rules", {"rule_names": ["a"]}, "fetch_rules", {"rules": ("a",)}),
    ("web_search", {"search_term": "s", "explanation": "e"}, "web_search", {"query": "s"}),
    (
        "todo_write",
        {"merge": True, "todos": [{"id": "1", "content": "a", "status": "completed"}]},
        "todo_write",
        {"merge": True},
    ),
    ("CreatePlan", {"name": "n", "overview": "o", "plan": "p", "isProject": False}, "create_plan", {"title": "n"}),
    (
        "update_memory",
        {"title": "t", "knowledge_to_store": "k", "action": "create", "existing_knowledge_id": ""},
        "propose_memory",
        {"note": "k"},
    ),
    (
        "Task",
        {"description": "d", "prompt": "p", "subagent_type": "generalPurpose", "readonly": True},
        "task",
        {"readonly": True},
    ),
    (
        "EditNotebook",
        {"target_notebook": "a.ipynb", "cell_idx": "0", "is_new_cell": "true", "cell_language": "python", **EDIT},
        "edit_notebook",
        {"cell_idx": 0, "is_new_cell": True},
    ),
]
CODEX = [
    ("shell", {"command": ["bash", "-lc", "ls -la"], "timeout_ms": 10000}, RUN, {"command": "ls -la", "timeout": 10}),
    ("shell", {"command": ["rg", "-n", "a b"]}, RUN, {"command": "rg -n 'a b'"}),
    (
        "shell_command",
        {"command": "ls", "workdir": "src", "with_escalated_permissions": True, "justification": "Why"},
        RUN,
        {"command": "ls", "working_directory": "src", "required_permissions": ("all",), "explanation": "Why"},
    ),
    (
        "exec_command",
        {"cmd": "ls", "yield_time_ms": 1000, "max_output_tokens": 100, "login": True},
        RUN,
        {"timeout": 0},
    ),
    (
        "exec_command",
        {"cmd": "ls", "sandbox_permissions": "require_escalated"},
        RUN,
        {"required_permissions": ("all",)},
    ),
    ("write_stdin", {"session_id": 1, "chars": "x", "yield_time_ms": 1500}, "write_terminal", {"job": "1", "wait": 2}),
    ("apply_patch", {"patch": "*** Begin Patch\n*** End Patch"}, "apply_patch", {}),
    ("view_image", {"path": "a.png"}, READ, {"target_file": "a.png"}),
    (
        "list_dir",
        {"dir_path": "src", "offset": 1, "limit": 25, "depth": 2},
        "list_dir",
        {"relative_workspace_path": "src"},
    ),
    ("grep_files", {"pattern": "p", "include": "*.rs", "path": "a", "limit": 100}, GREP, {"head_limit": 100}),
    ("update_plan", {"plan": "The text"}, "update_plan", {"plan": "The text"}),
]
SEEDS = [
    ("readTool", {"filePath": "main.ts"}, READ, {"target_file": "main.ts"}),
    ("editTool", {"filePath": "main.ts", "diffContent": "x"}, "edit_blocks", {"diff": "x"}),
    ("open_file", {"path": "a"}, READ, {"offset": 1, "limit": 100}),
    ("open_file", {"path": "a", "line_number": 300, "context_lines": 60}, READ, {"offset": 270, "limit": 60}),
    ("search_dir", {"search_term": "x", "dir_path": "./"}, GREP, {"pattern": "x", "path": "./"}),
    ("search_file", {"search_term": "x", "file_path": "a"}, GREP, {"pattern": "x", "path": "a"}),
    ("find_file", {"file_name": "a.py", "dir_path": "src"}, "glob_file_search", {"target_directory": "src"}),
    ("create", {"filename": "a", "contents": "x"}, "write", {"file_path": "a"}),
    (
        "edit",
        {"filePath": "a", "oldString": "a", "newString": "b", "replaceAll": True},
        "search_replace",
        {"replace_all": True},
    ),
    ("finish", {"message": "Done.", "task_completed": "true"}, "finish", {"message": "Done."}),
    ("execute_bash", {"command": "ls", "is_input": "false"}, RUN, {"command": "ls"}),
    ("execute_ipython_cell", {"code": "1"}, "run_python", {"code": "1"}),
]
DEFAULT_FORMAT = [
    ("run_shell_command", {"command": "ls", "directory": "src"}, RUN, {"working_directory": "src"}),
    ("replace", {"file_path": "a", **EDIT, "expected_replacements": 2}, "search_replace", {"replace_all": True}),
    ("replace", {"file_path": "a", **EDIT, "expected_replacements": 1}, "search_replace", {"replace_all": False}),
    ("write_to_file", {"path": "a", "content": "x", "line_count": 1}, "write", {"contents": "x"}),
    ("list_files", {"path": "a", "recursive": "true"}, "list_dir", {"relative_workspace_path": "a"}),
    ("search_files", {"path": "a", "regex": "x", "file_pattern": "*.py"}, GREP, {"include_pattern": "*.py"}),
    ("webfetch", {"url": "https://e.org", "format": "markdown", "timeout": 10}, "web_fetch", {"url": "https://e.org"}),
    ("bash", {"command": "ls"}, RUN, {"command": "ls"}),
    ("readFile", {"path": "a"}, READ, {"target_file": "a"}),
]


def parse(name: str, arguments: dict[str, Any]) -> Tool[Any]:
    meant = translate_call(unwrap_call(ToolCall(id="c", name=name, arguments=json.dumps(arguments))))
    return TOOLS.parse(meant.name, meant.arguments)


def check(name: str, arguments: dict[str, Any]) -> None:
    call = parse(name, arguments)
    if isinstance(call, AskQuestion):
        call.check_questions()


@pytest.mark.parametrize(("name", "arguments", "own", "values"), [*CLAUDE, *CURSOR, *CODEX, *SEEDS, *DEFAULT_FORMAT])
def test_a_call_of_another_agents_tool_is_understood(name, arguments, own, values):
    call = parse(name, arguments)
    assert call.name == own
    assert {key: getattr(call, key) for key in values} == values


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("Bash", {"command": "ls", "timeout": 3600}, "in seconds"),  # an hour, or four seconds: nobody knows
        ("Bash", {"command": "ls", "required_permissions": ["localhost:99999"]}, "1 to 65535"),
        ("Bash", {"command": "ls", "required_permissions": ["localhost:0"]}, "'localhost:0' is not a permission"),
        ("Bash", {"command": "ls", "required_permissions": ["usb"]}, "valid: network, git_write, all"),
        ("Bash", {"command": ["ls", 5]}, "Expected `str`"),
        ("update_memory", {"knowledge_to_store": "k", "action": "delete"}, "no argument 'action'"),
        ("AskUserQuestion", {"question": "Which?"}, "options"),
        ("str_replace_editor", {"command": "rename", "path": "a"}, "There is no tool"),
        ("ExitPlanMode", {}, "There is no tool"),
        ("TodoWrite", {"todos": [{"content": "a"}, {"id": "b"}]}, "missing required field `id`"),
        ("Edit", {"file_path": "a", **EDIT, "regex": True}, "no argument 'regex'"),
    ],
)
def test_what_is_not_certain_is_refused_in_words(name, arguments, words):
    with pytest.raises(ToolInputInvalid) as caught:
        check(name, arguments)
    assert words in caught.value.format_with_hint()


def test_a_todo_list_without_ids_is_the_whole_list():
    steps = [{"content": "Look", "status": "completed"}, {"content": "Mend", "status": "in_progress"}]
    claude = parse("TodoWrite", {"todos": [{**step, "activeForm": "Doing", "priority": "high"} for step in steps]})
    codex = parse(
        "update_plan", {"explanation": "e", "plan": [{"step": s["content"], "status": s["status"]} for s in steps]}
    )
    assert claude == codex
    assert [(todo.id, todo.content, todo.status) for todo in claude.todos] == [
        ("step-1", "Look", "completed"),
        ("step-2", "Mend", "in_progress"),
    ]
    assert not claude.merge


def test_the_questions_of_other_agents_keep_what_their_options_say():
    options = [{"label": "ruff", "description": "fast"}, {"label": "flake8", "description": "x" * 400}]
    asked = {"question": "Which?", "header": "Linter", "multiSelect": True, "options": options}
    [question] = parse("AskUserQuestion", {"questions": [asked]}).check_questions()
    assert (question.text, question.header, question.allow_multiple) == ("Which?", "Linter", True)
    assert [option.label for option in question.options] == ["ruff: fast", "flake8"]
    [alone] = parse(ASK, {"question": "Which?", "options": ["a", "b"]}).check_questions()
    assert [option.label for option in alone.options] == ["a", "b"]


def test_a_name_is_found_however_its_letters_are_written_and_none_stands_for_two():
    folded = [name.replace("_", "").lower() for tool in BUILTIN for name in {tool.name, *tool.aliases}]
    owners = {}
    for tool in BUILTIN:
        for name in (tool.name, *tool.aliases):
            assert owners.setdefault(name.replace("_", "").lower(), tool.name) == tool.name
    assert len(folded) > len(BUILTIN)
    assert TOOLS.find("todowrite").name == "todo_write"
    assert TOOLS.find("READ-FILE").name == "read_file"


def window(*requests: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """What the last of these calls reads, when each was an answer of its own."""
    asked = [ToolCall(id=f"c{number}", name=n, arguments=json.dumps(a)) for number, (n, a) in enumerate(requests)]
    messages = [AssistantMessage(content="", tool_calls=(tool_call,)) for tool_call in asked]
    return json.loads(resolve_scroll(translate_call(asked[-1]), messages).arguments)


def test_a_window_is_scrolled_from_where_it_was_opened_or_gone_to():
    opened = ("open_file", {"path": "a"})
    at = ("open_file", {"path": "a", "line_number": 200, "context_lines": 50})
    assert window(opened, ("scroll_down", {})) == {"target_file": "a", "offset": 101, "limit": 100}
    assert window(at, ("scroll_up", {})) == {"target_file": "a", "offset": 125, "limit": 50}
    assert window(opened, ("goto", {"line_number": 400})) == {"target_file": "a", "offset": 400, "limit": 100}
    arguments = window(opened, ("scroll_down", {}), ("goto_line", {"line": 400}), ("scroll_down", {}))
    assert arguments == {"target_file": "a", "offset": 500, "limit": 100}
    assert window(("scroll_down", {})) == {}
