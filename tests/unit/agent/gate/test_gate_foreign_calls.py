"""Calls of other agents' tools, run through the gate: what they do, and what the model is told of them."""

from __future__ import annotations

from core.config.settings import Settings
from core.protocol import events as ev
from core.protocol.tools import ToolSettings
from tests.support.agent_case import Case, calls, says

EDITOR = "str_replace_based_edit_tool"
PATCH = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-two\n+2\n*** End Patch"


async def test_an_editor_of_another_agent_views_inserts_and_undoes(tmp_path):
    case = Case(
        tmp_path,
        calls((EDITOR, {"command": "view", "path": "src"})),
        calls((EDITOR, {"command": "insert", "path": "src/a.py", "insert_line": 1, "new_str": "1.5\n"})),
        calls(("exec_command", {"cmd": f"apply_patch <<'EOF'\n{PATCH}\nEOF"})),
        calls(("undo_edit", {"path": "src/a.py"})),
        calls((EDITOR, {"command": "undo_edit", "path": "src/a.py"})),
        calls((EDITOR, {"command": "undo_edit", "path": "src/a.py"})),
        says("So."),
    )
    (case.project / "src").mkdir()
    (case.project / "src" / "a.py").write_text("one\ntwo\n")
    await case.turn()
    viewed, inserted, patched, undone, undone_again, refused = case.results()
    assert "└── a.py" in viewed
    assert "the lines were inserted after line 1." in inserted
    assert "2|1.5" in inserted
    assert "the patch was applied" in patched
    assert "your last edit is undone." in undone
    assert "your last edit is undone." in undone_again
    assert "There is no edit of src/a.py to undo." in refused
    assert [event.tool for event in case.of(ev.ToolFinished)] == [
        *("read_file", "insert_lines", "apply_patch", "undo_edit", "undo_edit", "undo_edit")
    ]
    assert case.state.changes == {}


async def test_an_edit_is_not_undone_over_a_later_change(tmp_path):
    case = Case(
        tmp_path,
        calls((EDITOR, {"command": "create", "path": "a.py", "file_text": "x\n"})),
        calls((EDITOR, {"command": "undo_edit", "path": "a.py"})),
        calls((EDITOR, {"command": "view", "path": "a.py"})),
        says("So."),
    )
    await case.turn()
    assert "the file does not exist again" in case.results()[1]
    assert "a.py does not exist" in case.results()[2]
    case.shadow.edit("b.py", b"mine\n", None, None)
    case.model.steps += [
        calls(("read_file", {"path": "b.py"})),
        calls(("search_replace", {"path": "b.py", "old_string": "mine", "new_string": "ours"})),
        lambda_step(case),
        calls((EDITOR, {"command": "undo_edit", "path": "b.py"})),
        says("So."),
    ]
    await case.turn()
    assert "b.py has changed since your last edit" in case.results()[-1]


def lambda_step(case: Case):
    return [lambda: case.shadow.edit("b.py", b"theirs\n", None, None), *calls(("list_dir", {}))]


async def test_arguments_without_an_effect_are_named_in_the_result(tmp_path):
    case = Case(
        tmp_path,
        calls(("grep_search", {"pattern": "a(", "fixed_strings": True, "max_matches_per_file": 3})),
        calls(("search_replace", {"path": "a.py", "old_string": "a", "new_string": "b", "regex": True})),
        says("So."),
    )
    (case.project / "a.py").write_text("a(1)\n")
    await case.turn()
    searched, edited = case.results()
    assert searched.startswith("[grep has no argument 'max_matches_per_file': it did its work without]\n")
    assert "a(1)" in searched
    assert "search_replace has no argument 'regex', so nothing was done." in edited
    assert case.state.changes == {}


async def test_the_settings_of_a_tool_hold_for_those_that_stand_beside_it(tmp_path):
    settings = Settings(
        tools={"search_replace": ToolSettings(enabled=False), "read_file": ToolSettings(allowed_paths=("src",))}
    )
    case = Case(
        tmp_path,
        calls((EDITOR, {"command": "insert", "path": "a.py", "insert_line": 0, "new_str": "x\n"})),
        calls(("read_many_files", {"files": ["a.py", "src/b.py"]})),
        says("So."),
        settings=settings,
    )
    (case.project / "src").mkdir()
    (case.project / "src" / "b.py").write_text("b\n")
    (case.project / "a.py").write_text("secret\n")
    await case.turn()
    inserted, read = case.results()
    assert "Not run: insert_lines is turned off in the settings (tools.search_replace.enabled)." in inserted
    assert "secret" not in read
    assert case.state.changes == {}


async def test_several_files_are_read_in_one_call(tmp_path):
    request = {"include": ["src/a.py", "*.md", "a.md", "gone.py"], "exclude": ["b.md"], "recursive": True}
    case = Case(tmp_path, calls(("read_many_files", request)), says("So."))
    (case.project / "src").mkdir()
    for name in ("a.md", "b.md", "src/a.py"):
        (case.project / name).write_text(f"{name}\n")
    await case.turn()
    [result] = case.results()
    assert result.count("==> ") == 3
    assert "==> src/a.py <==\n     1|src/a.py\n\n==> a.md <==\n     1|a.md" in result
    assert result.endswith("[*.md matches a.md; name those that you want to read]")
    assert "==> gone.py <==\n[gone.py does not exist." in result


async def test_tasks_of_another_agent_are_todos(tmp_path):
    case = Case(
        tmp_path,
        calls(("TaskCreate", {"subject": "Add the route", "description": "GET /a"})),
        calls(("TaskCreate", {"subject": "Test it", "description": ""})),
        calls(("TaskUpdate", {"taskId": "test-it", "addBlockedBy": ["add-the-route"]})),
        calls(("TaskUpdate", {"taskId": "add-the-route", "status": "completed"})),
        calls(("TaskList", {})),
        says("So."),
    )
    await case.turn()
    assert (
        case.results()[-1] == "[x] add-the-route: Add the route: GET /a\n[ ] test-it: Test it\nReady to start: test-it."
    )
    assert [(todo.id, todo.status, todo.dependencies) for todo in case.state.todos] == [
        ("add-the-route", "completed", ()),
        ("test-it", "pending", ("add-the-route",)),
    ]


async def test_a_restart_of_the_shell_leads_back_to_the_project(tmp_path):
    case = Case(tmp_path, calls(("bash", {"restart": True})), says("So."))
    case.answer_approvals("allow_once")
    await case.turn()
    [request] = case.of(ev.ApprovalRequested)
    assert request.subject == f"cd {case.project}\n:"
    [result] = case.results()
    assert result.startswith("[every command has a shell of its own; this one starts in the project")
    assert "exit code 0" in result
