"""`agent-tui import`, and the one line at the first start: what is used of other agents' files, and what is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.arguments import PrintArguments
from core.cli.import_files import ImportArguments, run
from core.cli.print_mode.headless import run_print
from core.exits import ExitCode
from core.permissions.trust import TrustStore
from tests.support.agent_case import says
from tests.support.configured import configured
from tests.support.story import access

SETTINGS = {
    "permissions": {"allow": ["Bash(ls)"], "deny": ["Bash(git push:*)", "WebSearch"], "defaultMode": "plan"},
    "env": {"A": "1"},
    "hooks": {"Stop": []},
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    configured("")
    root = tmp_path / "project"
    (root / ".claude").mkdir(parents=True)
    (root / ".claude/settings.json").write_text(json.dumps({"permissions": {"ask": ["Bash(make)"]}}))
    (root / "GEMINI.md").write_text("Theirs.")
    home = Path.home()
    for name in (".claude", ".codex"):
        (home / name).mkdir(parents=True, exist_ok=True)
    (home / ".claude/settings.json").write_text(json.dumps(SETTINGS))
    (home / ".claude/CLAUDE.md").write_text("Mine.")
    codex = 'model = "m"\n[mcp_servers.docs]\ncommand = "x"\n[mcp_servers.off]\ncommand = "y"\nenabled = false\n'
    (home / ".codex/config.toml").write_text(codex)
    return root


def test_what_is_found_is_listed_with_what_is_used_and_what_has_no_effect(project, capsys):
    assert run(ImportArguments(directory=project)) == ExitCode.DONE
    mine = capsys.readouterr().out
    assert mine.splitlines() == [
        "~/.claude/CLAUDE.md",
        "  + instructions",
        "~/.claude/settings.json",
        "  + 2 rules (deny)",
        "  + hooks (agent-tui hooks lists them)",
        "  - deny WebSearch: nothing here corresponds to it",
        "  - permissions.allow: it allows; only your own configuration does that here",
        "  - env, permissions.defaultMode: no effect",
        "~/.codex/config.toml",
        "  + MCP server docs, offered: it asks before its first start",
        "  - MCP server off: it is switched off there",
        "  - model: no effect",
        "This project is not trusted: its own files are not read.",
    ]
    TrustStore(project).grant({})
    assert run(ImportArguments(directory=project, json=True)) == ExitCode.DONE
    paths = [file["path"] for file in json.loads(capsys.readouterr().out)]
    assert paths[-2:] == [".claude/settings.json", "GEMINI.md"]


def test_the_first_start_says_in_one_line_that_something_has_no_effect_and_no_later_one(project, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)

    def start() -> list[str]:
        assert run_print(PrintArguments(directory=project, prompt="go"), models=access([says("ok")])) == ExitCode.DONE
        return [line for line in capsys.readouterr().err.splitlines() if "agent-tui import" in line]

    assert start() == [
        "! Files of other agents: 4 parts used here, 5 parts without effect (said once; `agent-tui import` lists them)."
    ]
    assert start() == []
    (Path.home() / ".claude/settings.json").write_text('{"permissions": {"deny": ["Skill(x)"]}}')
    assert len(start()) == 1
    assert start() == []


def test_without_files_of_other_agents_nothing_is_said(tmp_path, capsys):
    assert run(ImportArguments(directory=tmp_path)) == ExitCode.DONE
    assert capsys.readouterr().out.splitlines()[0] == "No files of other agents are found."
