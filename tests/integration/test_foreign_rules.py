"""Rules of Claude Code, Cursor and opencode in a session: they narrow what the agent may do, those of a project once it
is trusted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.cli.permissions import PermissionsArguments
from core.cli.permissions import run as run_permissions
from core.exits import ExitCode
from tests.integration.test_permissions import asked, engine_of, results, turn
from tests.support.agent_case import says
from tests.support.boxes import command
from tests.support.configured import configured
from tests.support.story import project_at


def put(path: Path, document: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    configured('[commands]\npolicy = "auto"\n[permissions]\nallow = ["Shell(*)"]\n')
    return project_at(tmp_path / "project")


async def test_m10_rules_of_other_agents_narrow_and_grant_nothing(project):
    put(Path.home() / ".claude/settings.json", {"permissions": {"deny": ["Bash(git push *)"], "allow": ["Bash"]}})
    put(project / ".claude/settings.json", {"permissions": {"ask": ["Bash(make:*)"]}})
    put(project / "opencode.json", {"permission": {"bash": {"*": "allow", "touch *": "deny"}}})
    steps = [command("git push origin"), command("make"), command("touch x"), command("echo fine"), says("ok")]
    async with engine_of(project, *steps) as (engine, session):
        requests = asked(await turn(engine, session, "reject_once"))
        assert [request.subject for request in requests] == ["make"]
        assert "Shell(make) (.claude/settings.json)" in requests[0].reason
        pushed, _, touched, fine = results(engine, session)
        assert "Shell(git push *) (~/.claude/settings.json)" in pushed
        assert "Shell(touch *) (opencode.json)" in touched
        assert "fine" in fine


def test_the_command_line_lists_them_with_their_files(project, capsys):
    put(Path.home() / ".cursor/cli-config.json", {"permissions": {"deny": ["Shell(rm)"]}})
    assert run_permissions(PermissionsArguments(directory=project)) == ExitCode.DONE
    assert "deny  Shell(rm)   ~/.cursor/cli-config.json" in capsys.readouterr().out
