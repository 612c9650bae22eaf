from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.cli import sessions
from core.cli.arguments import PrintArguments, parse
from core.cli.print_mode.headless import run_print
from core.errors import StateError
from core.exits import ExitCode
from core.sessions.store import SessionStore
from tests.support.agent_case import calls, says
from tests.support.story import MODEL, access, project_at

WRITE = calls(("write", {"file_path": "b.txt", "contents": "b\n"}))


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr("sys.stdin", None)
    project = project_at(tmp_path / "project")
    run_print(PrintArguments(directory=project, prompt="Write b"), models=access([WRITE, says("Done.")]))
    return project


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    capsys.readouterr()
    found = parse(["sessions", *words])
    assert isinstance(found, sessions.SessionsArguments)
    return sessions.run(found), capsys.readouterr().out


def test_sessions_are_listed_and_shown_as_json(project, capsys, monkeypatch):
    [session] = [each.name for each in SessionStore(project).list_directories()]
    _, out = run(capsys, "list", str(project), "--json")
    assert [(each["id"], each["pending"], each["model"]) for each in json.loads(out)] == [(session, 1, MODEL)]
    monkeypatch.chdir("/")
    _, out = run(capsys, "show", session, "--json")
    shown = json.loads(out)
    assert (shown["workspace"], shown["prompts"]) == (str(project), ["Write b"])
    assert [each["path"] for each in shown["pendingChanges"]] == ["b.txt"]
    _, out = run(capsys, "show", session)
    assert "prompt 1   Write b" in out
    assert "waits      b.txt (+1 -0)" in out


def test_a_session_is_renamed_and_deleted_with_what_waits_only_by_force(project, capsys):
    [session] = [each.name for each in SessionStore(project).list_directories()]
    assert run(capsys, "rename", session, "The", "b", "file")[0] == ExitCode.DONE
    assert json.loads(run(capsys, "show", session, "--json")[1])["title"] == "The b file"
    with pytest.raises(StateError, match="1 edit waits in it"):
        run(capsys, "delete", session)
    assert json.loads(run(capsys, "delete", session, "--force", "--json")[1]) == {"id": session, "deleted": True}
    assert SessionStore(project).list_directories() == []
    with pytest.raises(StateError, match="there is no session"):
        run(capsys, "show", session)


def test_a_session_that_is_open_elsewhere_is_not_deleted(project, capsys):
    store = SessionStore(project)
    [session] = [each.name for each in store.list_directories()]
    held = store.open(session)
    with pytest.raises(StateError, match="is open"):
        run(capsys, "delete", session, "--force")
    held.close()
    assert store.has_session(session)
