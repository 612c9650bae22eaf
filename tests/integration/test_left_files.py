"""What a killed acceptance leaves in the project goes at the next start, whichever session that opens."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from core.protocol import commands as cmd
from core.protocol import events as ev
from core.sessions.log import read_envelopes
from core.sessions.store import SessionStore
from core.shadow.promotion.promotion import Promotion
from tests.support.agent_case import calls, says
from tests.support.open_session import run_turn, session_in, submit
from tests.support.story import access, project_at

OLD = {"a.txt": "one\ntwo\nthree\n", "b.txt": "b\n", "gone.txt": "gone\n"}
NEW = {"a.txt": "A\n", "b.txt": "B\n", "gone.txt": "gone\n", "made/c.txt": "C\n"}
CRASHED = 42


@pytest.fixture
def project(tmp_path) -> Path:
    root = project_at(tmp_path / "project")
    for path, text in OLD.items():
        (root / path).write_text(text)
    return root


def files_of(project: Path) -> dict[str, str]:
    paths = (path for path in project.rglob("*") if path.is_file())
    return {path.relative_to(project).as_posix(): path.read_text() for path in paths}


async def propose(project: Path) -> str:
    writes = (("write", {"file_path": path, "contents": text}) for path, text in NEW.items() if path != "gone.txt")
    reads = calls(*(("read_file", {"target_file": path}) for path in ("a.txt", "b.txt")))
    async with session_in(project, access([reads, calls(*writes), says("Done.")])) as (engine, session):
        await run_turn(engine, session)
    return session


def die_while_accepting(project: Path, session: str, method: str) -> None:
    """Accept all in a process that dies when it comes to a method of the promotion."""
    child = os.fork()
    if child:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == CRASHED
        return

    async def accept() -> None:
        async with session_in(project, access(), cmd.SessionResume(session=session)) as (engine, _):
            await submit(engine, cmd.HunkResolve(session=session, path="", verdict="accept"))

    setattr(Promotion, method, lambda *_, **__: os._exit(CRASHED))
    try:
        asyncio.run(accept())
    finally:
        os._exit(1)


@pytest.mark.parametrize(
    ("method", "after"),
    [("_carry_out", OLD), ("_clear_destination", OLD), ("_sync_directories", NEW), ("_finish", NEW), ("_discard", NEW)],
)
def test_n43_files_that_a_killed_acceptance_left_go_at_the_next_start_of_another_session(project, method, after):
    session = asyncio.run(propose(project))
    later = asyncio.run(propose_nothing(project))
    die_while_accepting(project, session, "_make_directories" if method == "_clear_destination" else method)
    (project / ".agent-tui-mine.tmp").write_text("the user's own\n")
    (project / ".agent-tui-0123456789abcdef.tmp").write_text("the user's own, too\n")
    order = [directory.name for directory in SessionStore(project).list_directories()]
    own = {".agent-tui-mine.tmp": "the user's own\n", ".agent-tui-0123456789abcdef.tmp": "the user's own, too\n"}
    messages = asyncio.run(start(project))
    assert files_of(project) == after | own
    assert len(messages) == 1
    assert "a.txt" in messages[0]
    assert [
        name for name in (directory.name for directory in SessionStore(project).list_directories()) if name in order
    ] == order
    assert asyncio.run(start(project)) == []
    verdicts = asyncio.run(count_verdicts(project, session))
    assert verdicts == (0 if after == OLD else 3)
    assert later


async def propose_nothing(project: Path) -> str:
    async with session_in(project, access([says("Hello.")])) as (engine, session):
        await run_turn(engine, session)
    return session


async def start(project: Path) -> list[str]:
    """Begin another session; return what it is told."""
    async with session_in(project, access()) as (_, session):
        log = SessionStore(project).sessions_path / session / "log.jsonl"
        return [envelope.event.message for envelope in read_envelopes(log) if isinstance(envelope.event, ev.Notice)]


async def count_verdicts(project: Path, session: str) -> int:
    async with session_in(project, access(), cmd.SessionResume(session=session)) as (engine, _):
        return len(engine.state(session).review.verdicts)


def test_n43_a_session_that_is_open_elsewhere_is_left_alone(project):
    session = asyncio.run(propose(project))
    die_while_accepting(project, session, "_sync_directories")
    before = files_of(project)

    async def look() -> None:
        directory = SessionStore(project).open(session)  # as another program has it
        assert await start(project) == []
        assert files_of(project) == before
        directory.close()
        assert len(await start(project)) == 1

    asyncio.run(look())
