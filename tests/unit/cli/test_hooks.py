from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from core.cli.arguments import parse
from core.cli.hooks import HooksArguments, run
from core.exits import ExitCode
from core.hooks.parsing import HookOwner, parse_hook_file
from tests.support.box_tiers import offered
from tests.support.trust import trust

boxed = pytest.mark.skipif(not any(tier.is_contained for tier in offered()), reason="hooks need a box")
PAGE = Path(__file__).parents[3] / "docs" / "hooks.md"
GUARD = (
    """grep -q -- --force && { echo '{"permission": "deny", "agent_message": "Not by force."}'; exit 0; } || exit 0"""
)


@pytest.fixture
def project(tmp_path) -> Path:
    root = tmp_path / "project"
    (root / ".cursor").mkdir(parents=True)
    hooks = {"beforeShellExecution": [{"command": GUARD}], "preToolUze": [{"command": "x"}]}
    (root / ".cursor" / "hooks.json").write_text(json.dumps({"version": 1, "hooks": hooks}))
    return root


def test_words_are_a_list_or_a_test_of_an_event(project, monkeypatch, capsys):
    monkeypatch.chdir(project)
    assert parse(["hooks"]) == HooksArguments(directory=project)
    assert parse(["hooks", "list", str(project), "--json"]) == HooksArguments(directory=project, json=True)
    arguments = parse(["hooks", "test", "PreToolUse", "--file", "a.json"])
    assert arguments == HooksArguments(directory=project, event="PreToolUse", file="a.json")
    with pytest.raises(SystemExit):
        parse(["hooks", "test", "preToolUze"])
    assert "test needs an event: sessionStart" in capsys.readouterr().err


def test_hooks_that_nobody_trusts_are_listed_and_marked(project, capsys):
    assert run(HooksArguments(directory=project)) == ExitCode.DONE
    output = capsys.readouterr().out
    assert "- beforeShellExecution  grep -q" in output
    assert "Did you mean preToolUse?" in output
    assert "a project that you do not trust yet" in output
    trust(project)
    run(HooksArguments(directory=project))
    assert "\n- " not in f"\n{capsys.readouterr().out}"
    run(HooksArguments(directory=project, json=True))
    assert [hook["trust"] for hook in json.loads(capsys.readouterr().out)] == ["trusted"]


def test_without_hooks_the_list_says_so(tmp_path, capsys):
    assert run(HooksArguments(directory=tmp_path)) == ExitCode.DONE
    assert capsys.readouterr().out == "There are no hooks here.\n"


@boxed
@pytest.mark.parametrize(("command", "code"), [("git push --force", ExitCode.FAILED), ("git push", ExitCode.DONE)])
def test_a_test_shows_what_goes_in_what_comes_out_and_what_is_made_of_it(project, command, code, monkeypatch, capsys):
    trust(project)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps({"command": command}).encode())))
    assert run(HooksArguments(directory=project, event="beforeShellExecution", file="-")) == code
    output = capsys.readouterr().out
    assert f'"command":"{command}"' in output
    assert "exit    0" in output
    assert ("permission deny; reason Not by force." in output) is (code == ExitCode.FAILED)


def test_an_event_without_hooks_and_a_file_without_json_are_told(project, tmp_path, capsys):
    trust(project)
    assert run(HooksArguments(directory=project, event="stop")) == ExitCode.DONE
    assert "No hook runs on stop" in capsys.readouterr().out
    (tmp_path / "bad.json").write_text("[1]")
    for name in ("bad.json", "gone.json"):
        code = run(HooksArguments(directory=project, event="stop", file=str(tmp_path / name)))
        assert (code, name in capsys.readouterr().err) == (ExitCode.USAGE, True)


EXAMPLES = re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("text", EXAMPLES)
def test_every_example_of_the_page_is_read_without_a_remark(text):
    dialect = "claude" if "PreToolUse" in text else "own"
    hook_file = parse_hook_file(text.encode(), HookOwner(dialect=dialect, scope="project", source="hooks.json"))
    assert hook_file.hooks
    assert hook_file.problems == ()


@boxed
def test_the_example_of_the_page_refuses_by_its_script_in_the_box(tmp_path, monkeypatch, capsys):
    project = tmp_path / "project"
    (project / ".agent-tui").mkdir(parents=True)
    (project / "scripts").mkdir()
    (project / ".agent-tui" / "hooks.json").write_text(
        next(example for example in EXAMPLES if "no-force-push" in example)
    )
    script = project / "scripts" / "no-force-push.sh"
    script.write_text("#!/bin/sh\ngrep -q -- --force && { echo no force >&2; exit 2; }\nexit 0\n")
    script.chmod(0o755)
    trust(project)
    (payload,) = re.findall(r"^echo '(.*)' \| agent-tui hooks test (?:\w+) --file -$", PAGE.read_text(), re.MULTILINE)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(payload.encode())))
    assert run(HooksArguments(directory=project, event="beforeShellExecution", file="-")) == ExitCode.FAILED
    assert "no force" in capsys.readouterr().out
