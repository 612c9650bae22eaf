"""What the user says to a running turn reaches the model in the order of typing, or is the user's again."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from core.arguments import ScreenArguments
from core.engine import Engine, EngineOptions
from core.errors import ProviderError
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.messages import UserMessage
from core.sessions.store import SessionStore
from core.transports.stdio_client import connect
from tests.support.agent_case import Step, calls, says
from tests.support.configured import configured
from tests.support.folded import fold_events
from tests.support.session_log import scan
from tests.support.story import access, project_at

HOST = Path(__file__).parents[1] / "support" / "held_host.py"
LOOK = calls(("list_dir", {}))


class Talk:
    """One session; what its model is sent, and what the user hears of the words that were not sent."""

    def __init__(self, engine: Engine, session: str) -> None:
        self.engine, self.session = engine, session

    async def say(self, command: cmd.AnyCommand) -> cmd.Reply:
        reply = await self.engine.submit(command)
        await self.engine.wait_idle(self.session)
        return reply

    async def submit(self, text: str) -> None:
        assert isinstance(await self.say(cmd.TurnSubmit(session=self.session, text=text)), cmd.Ack)

    async def steer(self, text: str) -> cmd.Reply:
        return await self.say(cmd.TurnSteer(session=self.session, text=text))

    async def stop(self) -> None:
        assert isinstance(await self.say(cmd.TurnInterrupt(session=self.session)), cmd.Ack)

    async def end(self, turns: int = 1) -> list[ev.AnyEvent]:
        """All events until so many turns have ended."""
        seen: list[ev.AnyEvent] = []
        stream = self.engine.events(self.session)
        async for envelope in stream:
            seen.append(envelope.event)
            if sum(isinstance(event, ev.TurnFinished) for event in seen) == turns:
                break
        await stream.aclose()
        return seen

    async def begin(self, text: str, step: int = 1) -> None:
        """Submit it; until the model is called."""
        await self.submit(text)
        await self.at(step)

    async def at(self, step: int) -> None:
        stream = self.engine.events(self.session)
        async for envelope in stream:
            if isinstance(envelope.event, ev.StepStarted) and envelope.event.step == step:
                break
        await stream.aclose()

    @property
    def told(self) -> list[str]:
        """What the user said, as the model has it."""
        messages = self.engine.state(self.session).messages
        contents = [
            message.content for message in messages if isinstance(message, UserMessage) and message.origin == "user"
        ]
        return [text.rpartition("<user_query>")[2].partition("</user_query>")[0].strip() for text in contents]


class talking:  # noqa: N801
    def __init__(self, project: Path, *steps: Step) -> None:
        self._engine = Engine(project, options=EngineOptions(watch=False), models=access(steps))

    async def __aenter__(self) -> Talk:
        reply = await self._engine.submit(cmd.SessionOpen())
        assert isinstance(reply, cmd.Ack)
        return Talk(self._engine, reply.session)

    async def __aexit__(self, *_: object) -> None:
        await self._engine.close()


@pytest.fixture
def project(tmp_path) -> Path:
    return project_at(tmp_path / "project")


def returned(seen: list[ev.AnyEvent]) -> list[str]:
    return [event.text for event in seen if isinstance(event, ev.SteerReturned)]


async def test_n6_what_an_interrupt_overtook_is_given_back_and_never_outranks_a_newer_prompt(project):
    async with talking(project, [asyncio.Event()], says("Kept.")) as talk:
        await talk.begin("rewrite it")
        await talk.steer("delete the old parser")
        await talk.stop()
        assert returned(await talk.end()) == ["delete the old parser"]
        await talk.submit("no, keep the old parser")
        await talk.end(2)
        assert talk.told == ["rewrite it", "no, keep the old parser"]
        assert not talk.engine.state(talk.session).pending_steers


async def test_n6_several_messages_come_back_or_are_sent_in_the_order_of_typing(project):
    hold = asyncio.Event()
    async with talking(project, [hold, *LOOK], [asyncio.Event()]) as talk:
        await talk.begin("begin")
        for text in ("first", "second"):
            await talk.steer(text)
        hold.set()
        await talk.at(2)
        for text in ("third", "fourth"):
            await talk.steer(text)
        await talk.stop()
        seen = await talk.end()
        assert talk.told == ["begin", "first", "second"]
        assert returned(seen) == ["third", "fourth"]


async def test_n6_what_is_said_after_the_stop_is_no_word_to_the_turn_that_stops(project):
    async with talking(project, [asyncio.Event()], says("Kept.")) as talk:
        await talk.begin("rewrite it")
        assert isinstance(await talk.engine.submit(cmd.TurnInterrupt(session=talk.session)), cmd.Ack)
        late = await talk.engine.submit(cmd.TurnSteer(session=talk.session, text="no, keep it"))
        assert isinstance(late, cmd.Reject)
        assert late.code == "turn_stopping"
        assert isinstance(await talk.engine.submit(cmd.TurnSubmit(session=talk.session, text="no, keep it")), cmd.Ack)
        await talk.end(2)
        assert talk.told == ["rewrite it", "no, keep it"]


async def test_n6_what_was_not_sent_yet_can_be_taken_back_and_what_was_sent_cannot(project):
    hold = asyncio.Event()
    async with talking(project, [hold, *says("Done.")]) as talk:
        await talk.begin("begin")
        await talk.steer("delete it")
        assert isinstance(await talk.say(cmd.TurnUnsteer(session=talk.session)), cmd.Ack)
        again = await talk.say(cmd.TurnUnsteer(session=talk.session))
        assert isinstance(again, cmd.Reject)
        assert again.code == "nothing_queued"
        hold.set()
        assert returned(await talk.end()) == ["delete it"]
        assert talk.told == ["begin"]


@pytest.mark.parametrize("how", ["failed", "limit"])
async def test_n6_a_turn_that_ends_otherwise_gives_back_what_was_not_sent(project, how):
    configured("[limits]\nmax_steps = 1\n" if how == "limit" else "")
    hold = asyncio.Event()
    last = LOOK if how == "limit" else [ProviderError("no such model.", code="bad_request")]
    async with talking(project, [hold, *last]) as talk:
        await talk.begin("begin")
        await talk.steer("and then?")
        hold.set()
        seen = await talk.end()
        assert seen[-1].reason == how
        waiting = [] if how == "limit" else ["and then?"]  # a limit is met after what was said is in the history
        assert returned(seen) == waiting
        assert talk.told == ["begin", *([] if waiting else ["and then?"])]


async def test_n6_a_word_given_with_the_last_answer_is_answered_in_the_same_turn(project):
    hold = asyncio.Event()
    async with talking(project, [*says("Done.")[:-1], hold, says("")[-1]], says("More.")) as talk:
        await talk.begin("begin")
        await talk.steer("and more")
        hold.set()
        seen = await talk.end()
        assert seen[-1].steps == 2
        assert returned(seen) == []
        assert talk.told == ["begin", "and more"]


async def test_n6_what_a_killed_engine_had_not_sent_is_given_back_when_the_session_goes_on(project):
    client = await connect(ScreenArguments(directory=project, program=(sys.executable, str(HOST))))
    opened = await client.submit(cmd.SessionOpen())
    stream = client.events(opened.session)
    await client.submit(cmd.TurnSubmit(session=opened.session, text="Do it"))
    async for envelope in stream:
        if isinstance(envelope.event, ev.StepStarted):
            await client.submit(cmd.TurnSteer(session=opened.session, text="delete the old parser"))
        if isinstance(envelope.event, ev.TurnSteered):
            break
    os.kill(client.pid, signal.SIGKILL)
    await client.close()
    log = SessionStore(project).sessions_path / opened.session / "log.jsonl"
    assert list(fold_events(scan(log).envelopes).pending_steers.values()) == ["delete the old parser"]
    async with talking(project) as talk:
        reply = await talk.engine.submit(cmd.SessionResume(session=opened.session))
        assert isinstance(reply, cmd.Ack)
        state = talk.engine.state(opened.session)
        assert not state.pending_steers
        assert returned([envelope.event for envelope in scan(log).envelopes]) == ["delete the old parser"]
        assert "delete the old parser" not in str(state.messages)


def test_n6_a_log_of_an_older_program_leaves_nothing_waiting():
    events = [ev.TurnStarted(prompt="p", mode="agent", model="m"), ev.TurnSteered(text="old")]
    envelopes = [ev.Envelope(seq=seq, session="ses_a", at=1, event=event) for seq, event in enumerate(events, 1)]
    state = fold_events(envelopes)
    assert state.seq == 2
    assert not state.pending_steers
