from __future__ import annotations

import mmap
import os
import random
import signal
import sys
from pathlib import Path

from core.arguments import ScreenArguments
from core.engine import Engine, EngineOptions
from core.engine.session.recovery import complete_results
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.sessions.store import SessionStore
from core.transports.stdio_client import StdioClient, connect
from tests.support.folded import fold_events
from tests.support.session_log import scan
from tests.support.story import access, project_at

HOST = Path(__file__).parents[1] / "support" / "engine_host.py"
OLD, NEW = b"one\ntwo\nthree\n", b"one\nTWO\nthree\n"
KILLS = int(os.environ.get("AGENT_TUI_KILLS", "4"))  # one in each part of a turn; more of them take long


async def react(client: StdioClient, session: str, event: ev.AnyEvent) -> None:
    match event:
        case ev.ChangeProposed(change=change):
            await client.submit(cmd.HunkResolve(session=session, path=change.path, verdict="accept"))
        case ev.ApprovalRequested(id=approval):
            await client.submit(cmd.ApprovalAnswer(session=session, id=approval, decision="reject_once"))
        case _:
            pass


async def killed_after(project: Path, count: int) -> tuple[str, list[ev.Envelope]]:
    """Run a turn in an engine process, kill it when `count` events were seen; returns what a client saw for good."""
    client = await connect(ScreenArguments(directory=project, program=(sys.executable, str(HOST))))
    opened = await client.submit(cmd.SessionOpen())
    seen: list[ev.Envelope] = []
    stream = client.events(opened.session)
    await client.submit(cmd.TurnSubmit(session=opened.session, text="Do it"))
    async for envelope in stream:
        count -= 1
        if not isinstance(envelope.event, ev.LossyEvent):
            seen.append(envelope)
        if count <= 0 or isinstance(envelope.event, ev.TurnFinished):
            break
        await react(client, opened.session, envelope.event)
    os.kill(client.pid, signal.SIGKILL)
    await client.close()
    return opened.session, seen


async def test_d1_killed_at_any_moment_of_a_turn_nothing_seen_is_lost_and_the_session_goes_on(tmp_path):
    project = project_at(tmp_path / "project")
    chance, cut_off = random.Random(20), 0
    for count in [1 + int((part + chance.random()) * 75 / KILLS) for part in range(KILLS)]:
        (project / "a.txt").write_bytes(OLD)
        (project / "new.txt").unlink(missing_ok=True)
        session, seen = await killed_after(project, count)
        log_scan = scan(SessionStore(project).sessions_path / session / "log.jsonl")
        assert (
            log_scan.whole or log_scan.size % mmap.PAGESIZE == 0
        )  # Linux may cut a write between two pages for a kill
        assert log_scan.envelopes[: len(seen)] == seen
        assert (project / "a.txt").read_bytes() in {OLD, NEW}
        assert not (project / "new.txt").exists() or (project / "new.txt").read_bytes() == b"fresh\n"
        await resumed(project, session, log_scan.envelopes)
        cut_off += fold_events(log_scan.envelopes).current_turn is not None
    assert cut_off > KILLS / 3


async def resumed(project: Path, session: str, before: list[ev.Envelope]) -> None:
    """A new engine folds the same prefix, closes what was open, and runs another turn."""
    engine = Engine(project, options=EngineOptions(watch=False), models=access())
    reply = await engine.submit(cmd.SessionResume(session=session))
    assert isinstance(reply, cmd.Ack), reply
    state, prefix = engine.state(session), fold_events(before)
    assert state.messages[: len(prefix.messages)] == prefix.messages
    assert complete_results(state.messages) == state.messages
    assert state.current_turn is None
    assert not state.approvals
    for path, change in state.changes.items():
        assert change.pending.kind == "file"
        assert engine._find_session(session).shadow.read(path) is not None
    stream = engine.events(session, after=state.seq)
    assert isinstance(await engine.submit(cmd.TurnSubmit(session=session, text="Go on")), cmd.Ack)
    async for envelope in stream:
        if isinstance(envelope.event, ev.TurnFinished):
            assert envelope.event.reason == "done"
            break
    await stream.aclose()
    await engine.close()
    assert set(os.listdir(project)) <= {"a.txt", "new.txt"}  # noqa: PTH208
