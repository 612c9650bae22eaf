"""One stored content that is damaged costs that change and nothing else: it is named, and can be dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.engine import Engine
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.review import Change
from core.user_dirs import get_state_dir
from tests.support.agent_case import calls, says
from tests.support.open_session import read_until, run_turn, session_in, submit
from tests.support.story import access, project_at

PATHS = ("one", "two", "three")


@pytest.fixture
def project(tmp_path) -> Path:
    return project_at(tmp_path / "project")


def writes() -> list[object]:
    edits = [("write", {"file_path": path, "contents": f"{path}\n"}) for path in PATHS]
    edit = ("search_replace", {"file_path": "a.txt", "old_string": "two", "new_string": "TWO"})
    return calls(*edits, edit)


def changes(engine: Engine, session: str) -> dict[str, Change]:
    return dict(engine.state(session).changes)


def damage(blob: str, how: str) -> None:
    (path,) = get_state_dir().rglob(f"blobs/{blob[:2]}/{blob[2:]}")
    path.unlink() if how == "gone" else path.write_bytes(b"other")


def resolve(session: str, path: str, verdict: str) -> cmd.HunkResolve:
    return cmd.HunkResolve(session=session, path=path, verdict=verdict)


@pytest.mark.parametrize("how", ["gone", "damaged"])
async def test_n16e_one_damaged_content_leaves_the_others_acceptable_and_is_named(project, how):
    async with session_in(project, access([writes(), says("Done.")])) as (engine, session):
        await run_turn(engine, session)
        damage(changes(engine, session)["two"].pending.blob, how)
        before = engine.state(session).seq
        await submit(engine, resolve(session, "", "accept"))
        assert list(changes(engine, session)) == ["two"]
        assert [(project / path).exists() for path in PATHS] == [True, False, True]
        *_, error = await read_until(engine, session, ev.ErrorRaised, after=before)
        assert isinstance(error, ev.ErrorRaised)
        assert error.path == "two"
        assert error.message.startswith("two: stored content")
        assert "reject the file" in error.hint


@pytest.mark.parametrize("how", ["gone", "damaged"])
async def test_n16e_a_damaged_change_is_shown_as_such_and_can_be_rejected(project, how):
    async with session_in(project, access([writes(), says("Done.")])) as (engine, session):
        await run_turn(engine, session)
        damage(changes(engine, session)["two"].pending.blob, how)
        diff = await engine.query(q.DiffQuery(session=session, path="two"))
        assert "can no longer be shown or accepted" in str(diff)
        await submit(engine, resolve(session, "two", "accept"))
        assert "two" in changes(engine, session)
        await submit(engine, resolve(session, "two", "reject"))
        assert sorted(changes(engine, session)) == ["a.txt", "one", "three"]


async def test_n16e_a_damaged_base_is_stored_anew_from_the_project_and_the_change_accepted(project):
    async with session_in(project, access([writes(), says("Done.")])) as (engine, session):
        await run_turn(engine, session)
        damage(changes(engine, session)["a.txt"].base.blob, "damaged")
        await submit(engine, resolve(session, "a.txt", "accept"))
        assert (project / "a.txt").read_text() == "one\nTWO\nthree\n"
        await submit(engine, cmd.VerdictUndo(session=session))
        assert (project / "a.txt").read_text() == "one\ntwo\nthree\n"
