"""The files of an open session that are taken away from outside: noticed at the edges of a turn, and nothing is lost
that is not said."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from core.cli.arguments import parse
from core.cli.print_mode import headless
from core.exits import ExitCode
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.sessions.store import SessionStore
from tests.support.agent_case import says
from tests.support.commits import commit, edited, git, make_repository, preview, writes
from tests.support.open_session import run_turn, session_in, submit
from tests.support.story import access, project_at


def remove(directory: Path) -> None:
    shutil.rmtree(directory)


def replace(directory: Path) -> None:
    copy = directory.with_name("copy")
    shutil.copytree(directory, copy)
    shutil.rmtree(directory)
    copy.rename(directory)


def move(directory: Path) -> None:
    directory.rename(directory.with_name("elsewhere"))


def truncate(directory: Path) -> None:
    os.truncate(directory / "log.jsonl", 10)


def write_into(directory: Path) -> None:
    with (directory / "log.jsonl").open("ab") as file:
        file.write(b"another program's\n")


def take_lock(directory: Path) -> None:
    (directory / "lock").unlink()
    (directory / "lock").touch()


HARMS = {each.__name__: each for each in (remove, replace, move, truncate, write_into, take_lock)}
WORDS = {"remove": "was removed", "replace": "was replaced", "move": "was moved away", "truncate": "was cut short",
         "write_into": "was written to", "take_lock": "was replaced"}  # fmt: skip


@pytest.fixture
def project(tmp_path) -> Path:
    return project_at(tmp_path / "project")


def directory_of(project: Path, session: str) -> Path:
    return SessionStore(project).sessions_path / session


def losses(events: list[ev.AnyEvent]) -> list[ev.ErrorRaised]:
    return [event for event in events if isinstance(event, ev.ErrorRaised) and event.code == "state_lost"]


@pytest.mark.parametrize("name", HARMS)
async def test_n42_files_that_are_taken_away_are_told_at_the_next_edge_and_nothing_is_written(project, name):
    turns = [writes("a.txt", "new\n"), says("Done."), says("Again.")]
    async with session_in(project, access(turns)) as (engine, session):
        await run_turn(engine, session)
        HARMS[name](directory_of(project, session))
        events = await run_turn(engine, session, "Go on.")
        assert any(WORDS[name] in loss.message for loss in losses(events))
        assert any("/export" in loss.hint for loss in losses(events))
        before = engine.state(session).seq
        for command in (
            cmd.HunkResolve(session=session, path="a.txt", verdict="accept"),
            cmd.HunkResolve(session=session, path="", verdict="accept"),
        ):
            await submit(engine, command)
        assert engine.state(session).seq > before
        assert (project / "a.txt").read_text() == "one\ntwo\nthree\n"
        assert "a.txt" in engine.state(session).changes


@pytest.mark.parametrize("harm", [remove, move, replace])
async def test_n42_a_session_without_its_files_is_exported_from_memory(project, tmp_path, harm):
    turns = [says("The first answer."), says("The second answer.")]
    async with session_in(project, access(turns)) as (engine, session):
        await run_turn(engine, session)
        harm(directory_of(project, session))
        await run_turn(engine, session, "Go on.")
        target = tmp_path / "kept.md"
        await submit(engine, cmd.SessionExport(session=session, path=str(target), format="md"))
        for text in (target.read_text(), (await engine.query(q.ExportQuery(session=session, format="md"))).text):
            assert "The first answer." in text
            assert "The second answer." in text


async def test_n42_nothing_is_committed_without_a_note(tmp_path, monkeypatch):
    project = make_repository(tmp_path, monkeypatch)
    async with session_in(project, access([writes("a.txt", edited(2)), says("Done.")])) as (engine, session):
        await run_turn(engine, session)
        await submit(engine, cmd.HunkResolve(session=session, path="a.txt", verdict="accept"))
        answer = await preview(engine, session)
        shutil.rmtree(directory_of(project, session))
        monkeypatch.setattr("core.engine.commits.basis.read_version", lambda state, contents: None)
        (failed,) = await commit(engine, session, answer)
        assert isinstance(failed, ev.CommitFailed)
    assert git(project, "log", "--format=%s") == "first\n"
    assert not list((project / ".git").glob("*lock*"))


async def test_n42_content_that_is_gone_is_named_with_its_file(project):
    async with session_in(project, access([writes("a.txt", "new\n"), says("Done.")])) as (engine, session):
        await run_turn(engine, session)
        remove_blobs(directory_of(project, session))
        before = engine.state(session).seq
        await submit(engine, cmd.HunkResolve(session=session, path="a.txt", verdict="accept"))
        errors = [event for event in await read_since(engine, session, before) if isinstance(event, ev.ErrorRaised)]
        assert any("a.txt" in error.message for error in errors)
    assert (project / "a.txt").read_text() == "one\ntwo\nthree\n"


def remove_blobs(directory: Path) -> None:
    for path in (directory / "blobs").iterdir():
        shutil.rmtree(path)


async def read_since(engine, session: str, after: int) -> list[ev.AnyEvent]:
    events: list[ev.AnyEvent] = []
    last = engine.state(session).seq
    async for envelope in engine.events(session, after=after):
        events.append(envelope.event)
        if envelope.seq >= last:
            break
    return events


def test_n42_a_prompt_whose_session_is_taken_away_ends_with_an_error(project, capsys, monkeypatch):
    arguments = parse(["-p", "hi", str(project)])

    class Vandal(list):  # a model's answer that is made while the session's files go
        def __iter__(self):
            for path in SessionStore(project).sessions_path.iterdir():
                shutil.rmtree(path)
            return super().__iter__()

    monkeypatch.setattr("sys.stdin", None)
    code = headless.run_print(arguments, models=access([Vandal(says("Done."))]))
    output = capsys.readouterr()
    assert code == ExitCode.FAILED
    assert "Done." in output.out
    assert "no longer saved" in output.err


def test_n42_the_screen_does_not_offer_to_go_on_with_what_is_gone(tmp_path):
    from tui.notices import format_exit_summary
    from tui.state import ViewState, show_event

    raised = ev.ErrorRaised(code="state_lost", message="this session is no longer saved: /x was removed.")
    view = ViewState(session_id="ses_1")
    show_event(
        view,
        ev.Envelope(seq=1, session="ses_1", at=0, event=ev.TurnStarted(prompt="x", mode="agent", model="m"), turn="t"),
    )
    assert "--resume" in format_exit_summary(view, tmp_path)
    show_event(view, ev.Envelope(seq=2, session="ses_1", at=0, event=raised))
    assert "was removed" in format_exit_summary(view, tmp_path)
    assert "--resume" not in format_exit_summary(view, tmp_path)
    show_event(view, ev.Envelope(seq=3, session="ses_1", at=0, event=ev.SessionResumed()))
    assert "--resume" in format_exit_summary(view, tmp_path)
