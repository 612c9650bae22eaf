from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.cli import plan
from core.cli.arguments import parse
from core.errors import AgentTuiError
from tests.support.box_tiers import offered

TEXT = """---
name: Login
todos:
  - id: a
    content: First
    verify: test -e ok # the proof
  - id: b
    content: Second
    dependencies: [a]
---
# Body
"""


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    root = tmp_path / "project"
    (root / ".cursor/plans").mkdir(parents=True)
    (root / ".cursor/plans/login_01234567.plan.md").write_text(TEXT)
    monkeypatch.chdir(root)
    return root


def run(*words: str) -> int:
    return plan.run(parse(["plan", *words]))


def test_plans_are_listed_and_shown_with_what_is_ready(project, capsys):
    assert run("list") == 0
    assert capsys.readouterr().out == ".cursor/plans/login_01234567.plan.md  0/2  Login\n"
    assert run("show") == 0
    output = capsys.readouterr().out
    assert "[ ] a: First  (ready)\n        verify: test -e ok\n" in output
    assert "[ ] b: Second  (depends on a)\n" in output
    assert run("show", "login", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["ready"], answer["blocked_by"]) == (["a"], {"b": ["a"]})


def test_a_check_prints_every_fault_with_its_line_and_fails(project, capsys):
    path = project / ".cursor/plans/login_01234567.plan.md"
    assert run("check", str(path)) == 0
    path.write_text(TEXT.replace("[a]", "[b, z]").replace("content: First", "status: later"))
    capsys.readouterr()
    assert run("check") == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[1] for line in lines] == ["4", "5", "9", "9"]
    assert "b depends on itself" in lines[2]


def test_a_status_is_set_in_its_line(project, capsys):
    path = project / ".cursor/plans/login_01234567.plan.md"
    assert run("set", "login", "a", "in_progress") == 0
    assert path.read_text() == TEXT.replace("First\n", "First\n    status: in_progress\n")
    assert capsys.readouterr().out == "a: in_progress. Ready: none.\n"


def test_a_todo_that_waits_is_not_begun_and_only_completed_by_force(project, capsys):
    for words in (("in_progress",), ("completed",)):
        with pytest.raises(AgentTuiError, match=r"b can't be .* yet: it depends on a"):
            run("set", "login", "b", *words)
    assert (project / ".cursor/plans/login_01234567.plan.md").read_text() == TEXT
    assert run("set", "login", "b", "completed", "--force") == 0
    assert capsys.readouterr().out == "b: completed. Ready: a.\n"


def test_a_todo_with_a_command_is_completed_when_that_passes(project):
    with pytest.raises(AgentTuiError) as refused:
        run("set", "login", "a", "completed")
    if not any(tier.is_contained for tier in offered()):
        assert refused.value.code == "not_contained"
        return
    assert "did not pass (exit code 1)" in refused.value.message
    (project / "ok").write_text("")
    assert run("set", "login", "a", "completed") == 0
    assert "status: completed" in (project / ".cursor/plans/login_01234567.plan.md").read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("show", "nothing"), "no plan is called 'nothing'"),
        (("set", "login", "z", "completed"), "no todo z"),
        (("show", "../x/y.plan.md"), ""),
    ],
)
def test_what_is_not_there_is_told_with_what_is(project, words, told):
    with pytest.raises(AgentTuiError) as refused:
        run(*words)
    assert told in refused.value.message


@pytest.mark.parametrize("words", [("show",), ("check",), ("set",)])
@pytest.mark.parametrize("target", ["docs/a.plan.md", ".cursor/rules/a.mdc", ".cursor/plans/l.plan.md"])
def test_n1_no_other_file_is_read_or_written_as_a_plan(project, words, target):
    for path in ("docs/a.plan.md", ".cursor/rules/a.mdc"):
        (project / path).parent.mkdir(exist_ok=True)
        (project / path).write_text(TEXT)
    (project / ".cursor/plans/l.plan.md").symlink_to("../rules/a.mdc")
    with pytest.raises(AgentTuiError) as refused:
        run(words[0], str(project / target), *(("a", "in_progress") if words[0] == "set" else ()))
    assert "plan" in refused.value.format_with_hint()
    assert {(project / path).read_text() for path in ("docs/a.plan.md", ".cursor/rules/a.mdc")} == {TEXT}


@pytest.mark.parametrize(
    "words",
    [
        ("set", "login", "a"),
        ("set", "login", "a", "done"),
        ("frob",),
        (),
        ("check", "--json"),
        ("list", "x"),
        ("set", "login", "b", "pending", "--force"),
    ],
)
def test_wrong_arguments_are_usage_errors(project, words, capsys):
    with pytest.raises(SystemExit) as left:
        parse(["plan", *words])
    assert left.value.code == 2
    assert "agent-tui plan" in capsys.readouterr().err


@pytest.mark.parametrize("directory", ["docs/plans", "~/plans"])
def test_the_shell_finds_plans_where_the_settings_have_them(project, capsys, directory):
    config = Path("~/.config/agent-tui/config.toml").expanduser()
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f'[plans]\ndirectory = "{directory}"\n')
    assert run("list") == 0
    place = project / Path(directory).expanduser()
    display_path = str(place) if directory.startswith("~") else directory
    assert capsys.readouterr().out == f"there is no plan in {display_path}.\n"
    place.mkdir(parents=True)
    (place / "till_01234567.plan.md").write_text(TEXT.replace("    verify: test -e ok # the proof\n", ""))
    assert run("list") == 0
    assert capsys.readouterr().out == f"{display_path}/till_01234567.plan.md  0/2  Login\n"
    for name in ("till", "till_01234567.plan.md", str(place / "till_01234567.plan.md")):
        assert run("check", name) == 0
    assert run("set", "till", "a", "completed") == 0
    assert "status: completed" in (place / "till_01234567.plan.md").read_text()
    assert run("show", str(project / ".cursor/plans/login_01234567.plan.md")) == 0
    with pytest.raises(AgentTuiError):
        run("show", "/etc/till_01234567.plan.md")


def test_a_place_that_can_not_hold_plans_is_named_in_the_shell(project):
    config = Path("~/.config/agent-tui/config.toml").expanduser()
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text('[plans]\ndirectory = "~"\n')
    with pytest.raises(AgentTuiError, match="your home directory itself"):
        run("list")
