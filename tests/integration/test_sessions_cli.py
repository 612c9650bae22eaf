from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.arguments import PrintArguments
from core.cli import sessions
from core.cli.arguments import parse
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
    arguments = parse(["sessions", *words])
    assert isinstance(arguments, sessions.SessionsArguments)
    return sessions.run(arguments), capsys.readouterr().out


def test_sessions_are_listed_and_shown_as_json(project, capsys, monkeypatch):
    [session] = [directory.name for directory in SessionStore(project).list_directories()]
    _, out = run(capsys, "list", str(project), "--json")
    assert [(row["id"], row["pending"], row["model"]) for row in json.loads(out)] == [(session, 1, MODEL)]
    monkeypatch.chdir("/")
    _, out = run(capsys, "show", session, "--json")
    details = json.loads(out)
    assert (details["workspace"], details["prompts"]) == (str(project), ["Write b"])
    assert [change["path"] for change in details["pendingChanges"]] == ["b.txt"]
    _, out = run(capsys, "show", session)
    assert "prompt 1   Write b" in out
    assert "pending    b.txt (+1 -0)" in out


def test_a_session_is_renamed_and_deleted_with_what_waits_only_by_force(project, capsys):
    [session] = [directory.name for directory in SessionStore(project).list_directories()]
    assert run(capsys, "rename", session, "The", "b", "file")[0] == ExitCode.DONE
    assert json.loads(run(capsys, "show", session, "--json")[1])["title"] == "The b file"
    with pytest.raises(StateError, match="1 edit pending review"):
        run(capsys, "delete", session)
    assert json.loads(run(capsys, "delete", session, "--force", "--json")[1]) == {"id": session, "deleted": True}
    assert SessionStore(project).list_directories() == []
    with pytest.raises(StateError, match="there is no session"):
        run(capsys, "show", session)


def test_a_session_that_is_open_elsewhere_is_not_deleted(project, capsys):
    store = SessionStore(project)
    [session] = [directory.name for directory in store.list_directories()]
    held = store.open(session)
    with pytest.raises(StateError, match="is open"):
        run(capsys, "delete", session, "--force")
    held.close()
    assert store.has_session(session)


def test_a_kept_session_is_tagged_and_stays_a_run_of_no_screen(project, capsys):
    [session] = [directory.name for directory in SessionStore(project).list_directories()]
    assert json.loads(run(capsys, "tag", session, "#api", "later", "--json")[1])["tags"] == ["api", "later"]
    [row] = json.loads(run(capsys, "list", str(project), "--json")[1])
    assert (row["tags"], row["unattended"], row["pending"]) == (["api", "later"], True, 1)
    assert "#api #later" in run(capsys, "list", str(project))[1]
    run(capsys, "tag", session)
    assert json.loads(run(capsys, "show", session, "--json")[1])["tags"] == []


def test_runs_in_which_nothing_waits_are_one_line_of_the_list(project, capsys):
    run_print(PrintArguments(directory=project, prompt="Say it"), models=access([says("Said.")]))
    _, out = run(capsys, "list", str(project))
    assert "Write b" in out  # an edit of it waits
    assert "Say it" not in out
    assert "And 1 run of -p" in out
    assert "Say it" in run(capsys, "list", str(project), "--runs")[1]


def test_words_of_all_sessions_are_found_with_the_way_to_each(project, capsys):
    [session] = [directory.name for directory in SessionStore(project).list_directories()]
    _, out = run(capsys, "search", "write", "b", "--dir", str(project))
    assert out.startswith(session)
    assert "prompt   Write b" in out
    [hit, *_] = json.loads(run(capsys, "search", "done", "--dir", str(project), "--json")[1])
    assert (hit["session"], hit["kind"], hit["text"]) == (session, "answer", "Done.")
    assert hit["open"] == f"--resume {session} --at {hit['place']}"
    assert "No session of" in run(capsys, "search", "nowhere", "--dir", str(project))[1]
    run(capsys, "delete", session, "--force")
    assert "No session of" in run(capsys, "search", "done", "--dir", str(project))[1]


def test_a_session_is_exported_to_standard_output_and_to_a_new_file(project, capsys, tmp_path):
    [session] = [directory.name for directory in SessionStore(project).list_directories()]
    _, out = run(capsys, "export", session)
    assert "# Write b" in out
    assert "b.txt: pending review" in out
    page = tmp_path / "b.html"
    assert run(capsys, "export", session, "--format", "html", "-o", str(page)) == (ExitCode.DONE, "")
    assert page.read_text().startswith("<!doctype html>")
    with pytest.raises(StateError, match="already exists"):
        run(capsys, "export", session, "-o", str(page))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("search",), "search needs the words"),
        (("list", "--force"), "--force works only with delete"),
        (("show", "ses_a", "-o", "x"), "--output works only with export"),
        (("tag", "ses_a", "a,b"), "is not a tag"),
    ],
)
def test_what_does_not_go_together_is_said(words, problem, capsys):
    with pytest.raises(SystemExit):
        parse(["sessions", *words])
    assert problem in capsys.readouterr().err
