"""fold(log) is the live state, after every prefix, and what crosses the wire comes back as it was."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from core.engine import Engine, EngineOptions
from core.engine.session.recorder import EventBus
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.sessions import snapshot
from core.sessions.log import SessionLog
from core.sessions.store import SessionStore
from core.state.fold import apply_event
from core.state.session import SessionState
from tests.support.folded import as_data, fold_events
from tests.support.session_log import scan
from tests.support.story import access, planning, project_at, story


async def finish_turn(engine: Engine, session: str, prompt: str) -> list[ev.Envelope]:
    stream, seen = engine.events(session, after=engine.state(session).seq), []
    reply = await engine.submit(cmd.TurnSubmit(session=session, text=prompt))
    assert isinstance(reply, cmd.Ack), reply
    async for envelope in stream:
        seen.append(envelope)
        match envelope.event:
            case ev.ApprovalRequested(id=approval):
                await engine.submit(cmd.ApprovalAnswer(session=session, id=approval, decision="allow_once"))
            case ev.ChangeProposed(change=change) if change.path == "a.txt":
                await engine.submit(cmd.HunkResolve(session=session, path="a.txt", verdict="reject", reason="why"))
            case ev.TurnFinished():
                break
            case _:
                pass
    await stream.aclose()
    return seen


@pytest.fixture
async def recorded(tmp_path, monkeypatch) -> tuple[Path, str, list[dict]]:
    """A session of two turns with verdicts; returns its log and the live state after each durable event."""
    project = project_at(tmp_path / "project")
    engine = Engine(project, options=EngineOptions(watch=False), models=access([*story(), *planning()]))
    reply = await engine.submit(cmd.SessionOpen())
    runtime, live = engine._find_session(reply.session), []
    publish = EventBus.publish

    def recording(bus: EventBus, envelope: ev.Envelope) -> None:
        if not isinstance(envelope.event, ev.LossyEvent):
            live.append(as_data(runtime.state))
        publish(bus, envelope)

    live.append(as_data(runtime.state))
    monkeypatch.setattr(EventBus, "publish", recording)
    await finish_turn(engine, reply.session, "Do it")
    await engine.submit(cmd.ModeSet(session=reply.session, mode="plan"))
    await finish_turn(engine, reply.session, "Plan it")
    await engine.submit(cmd.VerdictUndo(session=reply.session))
    await engine.wait_idle(reply.session)
    log = SessionStore(project).sessions_path / reply.session / "log.jsonl"
    await engine.close()
    return log, reply.session, live


def test_every_prefix_of_the_log_folds_to_the_live_state_of_that_moment(recorded):
    log, _, live = recorded
    log_scan = scan(log)
    assert log_scan.whole
    assert len(log_scan.envelopes) == len(live) > 50
    state = SessionState()
    for envelope, expected in zip(log_scan.envelopes, live, strict=True):
        apply_event(state, envelope)
        assert as_data(state) == expected, envelope.event
    assert as_data(fold_events(log_scan.envelopes)) == live[-1]


def test_seq_is_dense_and_times_are_milliseconds(recorded):
    log, session, _ = recorded
    envelopes = scan(log).envelopes
    assert [envelope.seq for envelope in envelopes] == list(range(1, len(envelopes) + 1))
    assert {envelope.session for envelope in envelopes} == {session}
    assert all(1_600_000_000_000 < envelope.at < 10_000_000_000_000 for envelope in envelopes)
    assert not [envelope for envelope in envelopes if isinstance(envelope.event, ev.LossyEvent)]


def test_the_fold_survives_a_round_trip_of_every_envelope(recorded):
    log, _, live = recorded
    decoder = msgspec.json.Decoder(ev.Envelope)
    again = [decoder.decode(msgspec.json.encode(envelope)) for envelope in scan(log).envelopes]
    assert again == scan(log).envelopes
    assert as_data(fold_events(again)) == live[-1]


def with_tail(directory: Path, envelopes: list[ev.Envelope], cut: int) -> SessionState:
    """The state of a session that was left after `cut` records, was given the others since, and is opened now."""
    directory.mkdir()
    first = SessionLog(directory / "log.jsonl")
    state = SessionState(recall=first.read_records)
    for envelope in envelopes[:cut]:
        first.append(envelope)
        apply_event(state, envelope)
    assert snapshot.save_snapshot(directory, first, state, min_growth=0)
    first.close()
    later = SessionLog(directory / "log.jsonl", first.extent)
    for envelope in envelopes[cut:]:
        later.append(envelope)
    later.close()
    log, opened, mended = snapshot.open_session(directory, lambda: pytest.fail("the snapshot was not used"))
    log.close()
    assert mended == ""
    return opened


def test_n16e_a_snapshot_and_what_came_since_fold_to_the_same_state_wherever_it_was_made(recorded, tmp_path):
    log, _, live = recorded
    envelopes = scan(log).envelopes
    for cut in (1, 2, len(envelopes) // 3, len(envelopes) // 2, len(envelopes) - 1, len(envelopes)):
        assert as_data(with_tail(tmp_path / str(cut), envelopes, cut)) == live[-1]
