from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.arguments import PrintArguments
from core.cli.arguments import parse
from core.cli.print_mode.headless import run_print
from core.exits import ExitCode
from tests.support.agent_case import DirectedModel, calls, says
from tests.support.configured import configured
from tests.support.default_model import access_to
from tests.support.story import MODEL, access, project_at

AUTO = '[commands]\npolicy = "auto"\nchecks = ["curl *", "test *"]\n'
WANTS = ("run_terminal_cmd", {"command": "curl -s --max-time 9 http://example.test/"})


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr("sys.stdin", None)
    configured(AUTO)
    return project_at(tmp_path / "project")


def options(project: Path, *words: str) -> PrintArguments:
    arguments = parse(["-p", "Do it", str(project), *words])
    assert isinstance(arguments, PrintArguments)
    return arguments


@pytest.mark.parametrize("commands", [(WANTS,), (WANTS, WANTS)])
def test_network_that_was_refused_to_a_command_has_its_exit_code(project, commands):
    assert run_print(options(project), models=access([calls(*commands), says("No.")])) == ExitCode.REFUSED


@pytest.mark.parametrize("words", [(), ("--trust",)])
@pytest.mark.parametrize(
    ("rules", "command"),
    [
        ("", {"command": "ls", "required_permissions": ["all"]}),
        ('[permissions]\ndeny = ["Shell(git push*)"]\n', {"command": "git push origin main"}),
        ('[permissions]\nask = ["Shell(git push*)"]\n', {"command": "git push origin main"}),
    ],
)
def test_a_command_that_was_refused_has_its_exit_code_whether_the_project_is_trusted_or_not(
    project, rules, command, words
):
    configured(AUTO + rules)
    steps = [calls(("run_terminal_cmd", command)), says("No.")]
    assert run_print(options(project, *words), models=access(steps)) == ExitCode.REFUSED


def test_a_mode_that_keeps_nothing_refuses_no_command_by_being_one(project):
    configured(AUTO)
    steps = [calls(("run_terminal_cmd", {"command": "ls", "required_permissions": ["all"]})), says("No.")]
    assert run_print(options(project, "--mode", "ask"), models=access(steps)) == ExitCode.DONE


def test_network_that_nothing_wanted_changes_no_exit_code(project):
    run = calls(("run_terminal_cmd", {"command": "true"}))
    assert run_print(options(project), models=access([run, says("Done.")])) == ExitCode.DONE


def test_only_allowed_tools_run_and_tools_narrow_them_further(project, capsys):
    narrowed = json.dumps({"Read": {}, "read_file": {"allowed_paths": ["docs"]}, "grep": {"scope": "changed"}})
    with pytest.raises(SystemExit):
        options(project, "--allowed-tools", "Red")
    assert "there is no tool with that name" in capsys.readouterr().err
    arguments = options(project, "--allowed-tools", "Read,list_dir", "--tools", narrowed.replace('"Read": {}, ', ""))
    steps = calls(
        ("read_file", {"target_file": "a.txt"}),
        ("list_dir", {"path": "."}),
        ("grep", {"pattern": "one"}),
        ("write", {"file_path": "b.txt", "contents": "b\n"}),
    )
    model = DirectedModel([steps, says("Done.")])
    run_print(arguments, models=access_to(lambda *_: (model, "story"), MODEL))
    results = [message.content for message in model.requests[-1].messages if type(message).__name__ == "ToolMessage"]
    assert "limited to other paths" in results[0]
    assert "a.txt" in results[1]
    assert all("is turned off by the request" in result for result in results[2:])
    text = "\n".join(str(message.content) for message in model.requests[0].messages)
    assert "Only the tools named here are on; all others are off." in text
    assert "`list_dir`: on, as usual" in text


def test_appended_text_ends_the_system_prompt_of_a_new_session(project, capsys):
    model = DirectedModel([says("Aye.")])
    arguments = options(project, "--append-system-prompt", "Answer like a pirate.")
    run_print(arguments, models=access_to(lambda *_: (model, "story"), MODEL))
    [request] = model.requests
    assert "<user_instructions>\nAnswer like a pirate.\n</user_instructions>" in request.system
    with pytest.raises(SystemExit):
        options(project, "-c", "--append-system-prompt", "x")
    assert "for a new session" in capsys.readouterr().err


EDITS = calls(
    ("write", {"file_path": "src/a.txt", "contents": "a\n"}),
    ("write", {"file_path": "doc.md", "contents": "d\n"}),
    ("write", {"file_path": ".vscode/settings.json", "contents": "{}\n"}),
)
LATER = calls(("write", {"file_path": "late.txt", "contents": "l\n"}))
CHECK = calls(("run_terminal_cmd", {"command": "test -e src/a.txt"}))


@pytest.mark.parametrize(
    ("words", "written", "code"),
    [
        (["none"], set(), ExitCode.DONE),
        (["src"], {"src/a.txt"}, ExitCode.DONE),
        (["*.md", "src/*"], {"src/a.txt", "doc.md"}, ExitCode.DONE),
        ([".vscode"], set(), ExitCode.REFUSED),
        (["verified"], {"src/a.txt"}, ExitCode.REFUSED),
        (["all"], {"src/a.txt", "doc.md", "late.txt"}, ExitCode.REFUSED),
    ],
)
def test_what_is_accepted_at_the_end_is_what_was_named(project, words, written, code):
    arguments = options(project, *(word for choice in words for word in ("--accept", choice)))
    assert run_print(arguments, models=access([EDITS, CHECK, LATER, says("Done.")])) == code
    paths = {path.relative_to(project).as_posix() for path in project.rglob("*") if path.is_file()}
    assert paths - {"a.txt"} == written


def test_an_added_directory_is_read_and_never_written(project, tmp_path, capsys):
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("from beside\n")
    (other / ".env").write_text("KEY=hidden\n")
    (other / "kept.txt").write_text("hidden\n")
    (other / ".cursorignore").write_text("kept.txt\n")
    (other / "link.txt").symlink_to(tmp_path / "outside.txt")
    (tmp_path / "outside.txt").write_text("hidden\n")
    names = ("notes.txt", ".env", "kept.txt", "link.txt", "../outside.txt")
    reads = [("read_file", {"target_file": f"{other}/{name}"}) for name in names]
    steps = calls(
        *reads,
        ("list_dir", {"path": str(other)}),
        ("grep", {"pattern": "beside", "path": str(other)}),
        ("write", {"file_path": f"{other}/new.txt", "contents": "x\n"}),
        ("delete_file", {"target_file": f"{other}/notes.txt"}),
    )
    model = DirectedModel([steps, says("Done.")])
    run_print(options(project, "--add-dir", str(other)), models=access_to(lambda *_: (model, "story"), MODEL))
    results = [message.content for message in model.requests[-1].messages if type(message).__name__ == "ToolMessage"]
    assert "from beside" in results[0]
    assert not any("hidden" in result for result in results)
    assert "notes.txt" in results[5]
    assert "kept.txt" not in results[5]
    assert "read_file and list_dir reach it" in results[6]
    assert all("is read-only" in result for result in results[7:]), results[7:]
    assert sorted(path.name for path in other.iterdir()) == [
        ".cursorignore",
        ".env",
        "kept.txt",
        "link.txt",
        "notes.txt",
    ]
    assert f"- {other}" in "\n".join(str(message.content) for message in model.requests[0].messages)
    with pytest.raises(SystemExit):
        options(project, "--add-dir", "/")
    assert "--add-dir" in capsys.readouterr().err
