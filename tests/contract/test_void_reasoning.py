"""Where what was sent can't be the beginning of what is sent: void reasoning stays out, nothing is refused, and the
user is told."""

from __future__ import annotations

from typing import Any

import pytest

from core.engine import Engine
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from tests.contract.test_append_only import (
    EDIT,
    READ,
    assert_only_appended,
    on_every_wire,
    opaque,
    project,
    strict,
    thought,
)
from tests.integration.test_engine_provider import opened
from tests.support import wires
from tests.support.open_session import compact, engine_in, read_until, run_turn, submit
from tests.support.provider_server import ProviderServer
from tests.support.provider_streams import Say, Step

__all__ = ["project"]

WORK = (thought(READ), thought(EDIT), thought(Say(text="Changed.")))
REFUSALS = {
    "messages": Step(
        status=400,
        error_type="invalid_request_error",
        error="messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different "
        'conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".',
    ),
    "responses": Step(
        status=400,
        error_type="invalid_encrypted_content",
        error="The encrypted content gAAAAABpu... could not be verified. Reason: Encrypted content could not be "
        "decrypted or parsed.",
    ),
}


def notices(seen: list[Any]) -> str:
    return " ".join(f"{event.message} {event.hint}" for event in seen if isinstance(event, ev.Notice))


def assert_none_refused(server: ProviderServer) -> None:
    """Nothing void was sent: it would have been refused, or dropped with a remark."""
    assert server.rules is not None
    assert (server.rules.refusals, server.rules.remarks) == ([], [])


async def worked(engine: Engine, wire: str) -> str:
    session = await opened(engine, wires.MODELS[wire])
    await run_turn(engine, session, "Change it @a.txt")
    return session


@on_every_wire
async def test_a_compaction_makes_reasoning_void_and_says_so(project, monkeypatch, wire):
    (project / "a.txt").write_text("one\ntwo\nthree\n" + "a long line of text\n" * 4_000)
    replies = (thought(Say(text="I know.")), thought(Say(text="I know that, too.")))
    steps = (*WORK, replies[0], "NOTES: it was read.", *replies, thought(READ), thought(Say(text="Still.")))
    more = "[context]\nwindow = 40000\n"
    async with strict(monkeypatch, *steps, more=more) as server, engine_in(project) as engine:
        session = await worked(engine, wire)
        await run_turn(engine, session, "Do you know?")
        before = await compact(engine, session)
        await submit(engine, cmd.TurnSubmit(session=session, text="And now?"))
        seen = await read_until(engine, session, ev.TurnFinished, after=before)
        await run_turn(engine, session, "And then?")
        await run_turn(engine, session, "Read it again")
    assert_none_refused(server)
    server.requests[:] = server.answered[-4:]
    assert_only_appended(server)
    assert opaque(server) >= 2
    if wire != "chat":
        assert "is no longer sent" in notices(seen)
        assert "sent uncached" in notices(seen)


@on_every_wire
async def test_another_models_reasoning_stays_out_and_comes_back_with_its_model(project, monkeypatch, wire):
    steps = (*WORK, thought(READ), thought(Say(text="From there.")), thought(Say(text="Back.")))
    async with strict(monkeypatch, *steps) as server, engine_in(project) as engine:
        session = await worked(engine, wire)
        sent = opaque(server)
        await submit(engine, cmd.ModelSet(session=session, model=wires.OTHER_MODELS[wire]))
        seen = await run_turn(engine, session, "You?")
        assert opaque(server) == 1
        await submit(engine, cmd.ModelSet(session=session, model=wires.MODELS[wire]))
        await run_turn(engine, session, "And you?")
        assert opaque(server) == sent + 1
    assert_none_refused(server)
    assert "is no longer sent: it came from another model" in notices(seen)
    assert wires.grown(server.answered[-1]).startswith(wires.grown(server.answered[2]))


@on_every_wire
async def test_another_wire_goes_on_with_what_was_said_and_done(project, monkeypatch, wire):
    others = [name for name in wires.MODELS if name != wire]
    steps = (*WORK, thought(READ), thought(Say(text="From there.")), thought(Say(text="And there.")), "Back.")
    async with strict(monkeypatch, *steps) as server, engine_in(project) as engine:
        session = await worked(engine, wire)
        for other in (*others, wire):
            await submit(engine, cmd.ModelSet(session=session, model=wires.MODELS[other]))
            assert (await run_turn(engine, session, "Go on"))[-1].reason == "done"
    assert_none_refused(server)
    last = server.answered[-1].raw
    assert all(words in last for words in (b"Changed.", b"From there.", b"And there."))


@on_every_wire
async def test_a_fork_goes_on_with_the_same_bytes(project, monkeypatch, wire):
    async with strict(monkeypatch, *WORK, thought(Say(text="Here.")), "There.") as server, engine_in(project) as engine:
        session = await worked(engine, wire)
        reply = await engine.submit(cmd.SessionFork(session=session))
        assert isinstance(reply, cmd.Ack)
        await engine.wait_idle(session)
        await run_turn(engine, session, "Here?")
        await run_turn(engine, reply.session, "There?")
    assert_none_refused(server)
    assert wires.grown(server.answered[-1]).startswith(wires.grown(server.answered[2]))


@on_every_wire
async def test_after_going_back_the_conversation_goes_on_from_there(project, monkeypatch, wire):
    steps = (*WORK, thought(READ), thought(Say(text="Read.")), thought(Say(text="Once more.")))
    async with strict(monkeypatch, *steps) as server, engine_in(project) as engine:
        session = await worked(engine, wire)
        await run_turn(engine, session, "Read it")
        point = (await engine.query(q.CheckpointsQuery(session=session))).checkpoints[-1]
        await submit(engine, cmd.CheckpointRestore(session=session, id=point.id, what="conversation"))
        await run_turn(engine, session, "Read it once more")
    assert_none_refused(server)
    assert wires.grown(server.answered[-1]).startswith(wires.grown(server.answered[2]))
    assert opaque(server) == 3


@pytest.mark.parametrize("wire", REFUSALS)
async def test_a_refusal_of_reasoning_is_answered_once_without_it_and_said(project, monkeypatch, wire):
    steps = (*WORK, REFUSALS[wire], thought(Say(text="Well.")), thought(Say(text="Good.")))
    async with strict(monkeypatch, *steps) as server, engine_in(project) as engine:
        session = await worked(engine, wire)
        seen = await run_turn(engine, session, "And now?")
        assert seen[-1].reason == "done"
        assert opaque(server) == 0
        assert "was refused by" in notices(seen)
        again = await run_turn(engine, session, "And then?")
        assert "was refused by" not in notices(again)
    assert_none_refused(server)
    assert opaque(server) == 1


@pytest.mark.parametrize("wire", REFUSALS)
async def test_a_refusal_that_stays_ends_the_turn(project, monkeypatch, wire):
    async with strict(monkeypatch, *WORK, REFUSALS[wire], REFUSALS[wire]) as server, engine_in(project) as engine:
        session = await worked(engine, wire)
        seen = await run_turn(engine, session, "And now?")
    assert seen[-1].reason == "failed"
    assert len(server.answered) == 5
