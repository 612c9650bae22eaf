"""A restore that dies at any step, or between any two records of the log, is finished at the next start."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from core.engine.session.restore import NOTE_FILE
from core.protocol import commands as cmd
from tests.integration.test_checkpoints import (
    accept,
    approved_turn,
    disk,
    listed,
    restore,
    run,
    session_of,
    view,
    write,
)
from tests.support.agent_case import calls, says
from tests.support.story import project_at
from tests.support.trust import trust

CRASHED = 42
LOOK = calls(("read_file", {"target_file": "a.txt"}))


async def worked(project: Path) -> tuple[str, str, dict[str, bytes | None], dict[str, bytes]]:
    """A session with much to take back: its id, the checkpoint, and what there was at it."""
    steps = (
        run("mkdir out; echo 1 > out/a; echo 1 > waits"),
        says("Made."),
        LOOK,
        write("a.txt", "ONE\ntwo\nthree\n"),
        write("made/deep/b", "b\n"),
        run("echo 2 > out/a; echo 2 > out/b; rm gone; echo 2 > waits"),
        says("Changed."),
    )
    async with session_of(project, *steps) as (engine, session):
        await approved_turn(engine, session, "Make it")
        seen, files = view(engine, session), disk(project)
        await approved_turn(engine, session, "Change it")
        await accept(engine, session)
        await engine.submit(cmd.BulkResolve(session=session, root="out", verdict="accept"))
        await engine.wait_idle(session)
        assert (project / "out/b").exists()
        assert (project / "made/deep/b").exists()
        return session, (await listed(engine, session))[1].id, seen, files


def dying(number: int) -> Callable[[str], None]:
    left = iter(range(number))

    def step(_: str) -> None:
        if next(left, None) is None:
            os._exit(CRASHED)

    return step


async def restore_and_die(project: Path, session: str, checkpoint: str, at: int) -> None:
    """In a process of its own: every step of a promotion or a bulk, and every record, is a place to die at."""
    async with session_of(project, resume=session) as (engine, _):
        runtime, step = engine._find_session(session), dying(at)
        shadow = runtime.shadow
        shadow._promotion.step = shadow.bulks._step = shadow.bulks._transfer.step = step
        append = runtime.log.append

        def appended(envelope: object) -> None:
            step("before a record")
            append(envelope)  # type: ignore[arg-type]
            step("after a record")

        runtime.log.append = appended  # type: ignore[method-assign, assignment]
        await restore(engine, session, checkpoint)
        os._exit(0)


def restored(project: Path, session: str, checkpoint: str, at: int) -> None:
    asyncio.run(restore_and_die(project, session, checkpoint, at))


def died(project: Path, session: str, checkpoint: str, at: int) -> bool:
    """Whether the restore, in a process that has all modules already, came so far."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__])
    attempt = processes.Process(target=restored, args=(project, session, checkpoint, at))
    attempt.start()
    attempt.join()
    assert attempt.exitcode in {0, CRASHED}
    return attempt.exitcode == CRASHED


async def test_d1_d10_killed_at_any_step_of_a_restore_the_next_start_finishes_it(tmp_path, monkeypatch):
    project = project_at(tmp_path / "project")
    (project / ".gitignore").write_text("out/\n")
    (project / "gone").write_text("bye\n")
    monkeypatch.setenv("AGENT_TUI_STATE_DIR", str(tmp_path / "state"))
    trust(project)
    session, checkpoint, seen, files = await worked(project)
    for place in ("project", "state"):
        shutil.copytree(tmp_path / place, tmp_path / f"{place}.kept", symlinks=True)
    at, deaths = 0, 0
    while True:
        for place in ("project", "state"):
            shutil.rmtree(tmp_path / place)
            shutil.copytree(tmp_path / f"{place}.kept", tmp_path / place, symlinks=True)
        if not died(project, session, checkpoint, at):
            break
        await finished(project, session, checkpoint, seen, files)
        deaths += 1
        at += 1 if at < 6 else 6
    assert deaths > 10
    assert disk(project) == files


async def finished(
    project: Path, session: str, checkpoint: str, seen: dict[str, bytes | None], files: dict[str, bytes]
) -> None:
    """Either nothing had begun and nothing has changed, or all of it is done."""
    async with session_of(project, resume=session) as (engine, _):
        marks = await listed(engine, session)
        directory = engine._find_session(session).directory.path
        assert not (directory / NOTE_FILE).exists()
        if not (project / "made").exists():
            assert view(engine, session) == seen
            assert disk(project) == files
            assert len(engine.state(session).turns) == 1
            assert engine.state(session).messages
        else:
            assert len(engine.state(session).turns) == 2
            assert (project / "out/b").exists()
            await restore(engine, session, checkpoint)
            assert (view(engine, session), disk(project)) == (seen, files)
        assert {mark.id for mark in marks} >= {checkpoint}
