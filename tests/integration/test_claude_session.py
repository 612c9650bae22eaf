"""A session with a Claude whose thinking is bound to what stands before it; the server refuses what the API does."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator

import pytest

from core.engine import Engine
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.user_dirs import get_config_dir
from tests.integration.test_engine_provider import (
    EDIT,
    READ,
    opened,
    project,
    serving,
)
from tests.support.open_session import compact, engine_in, run_turn, submit
from tests.support.provider_server import Request
from tests.support.provider_streams import Call, Say, Step, Think

__all__ = ["project"]
OPUS, SONNET, OLD = "anthropic/claude-opus-5-5", "anthropic/claude-sonnet-5-5", "anthropic/claude-opus-4-5"
GREP = Call(name="grep", arguments={"pattern": "o"})
STEPS = (
    Step(parts=[Think(text="I have to look."), Say(text="I look."), READ, Think(text="And there."), GREP]),
    Step(parts=[Think(text="Now I know.", redacted=True), EDIT]),
    Step(parts=[Think(text="It is done."), Say(text="Changed.")]),
    Step(parts=[Think(text="A plan."), READ]),
    Step(parts=[Say(text="Planned.")]),
    "There is nothing to plan.",
    Step(parts=[Think(text="On."), Say(text="After all.")]),
)


def history(request: Request) -> bytes:
    """Head and history as they were sent, without the array's end."""
    raw = request.raw
    return raw[: raw.index(b'],"max_tokens"')]


def assert_only_appended(requests: list[Request]) -> None:
    for first, second in itertools.pairwise(requests):
        assert second.raw.startswith(history(first))


def thoughts(request: Request) -> int:
    return sum(
        block["type"] in {"thinking", "redacted_thinking"}
        for message in request.json["messages"]
        for block in message["content"]
    )


async def played(engine: Engine, session: str, *prompts: str) -> list[ev.AnyEvent]:
    seen: list[ev.AnyEvent] = []
    for prompt in prompts:
        seen += await run_turn(engine, session, prompt)
        assert seen[-1].reason == "done", seen[-1]
    return seen


async def events_of(engine: Engine, session: str, *, after: int) -> AsyncIterator[ev.AnyEvent]:
    """Those until now."""
    until, stream = engine.state(session).seq, engine.events(session, after=after)
    async with contextlib.aclosing(stream):
        async for envelope in stream:
            yield envelope.event
            if envelope.seq >= until:
                break


def notices(seen) -> list[str]:
    return [notice.message for notice in seen if isinstance(notice, ev.Notice) and "reasoning" in notice.message]


async def test_a_session_is_only_appended_to_over_turns_modes_verdicts_and_a_resume(project, monkeypatch):
    async with serving(monkeypatch, *STEPS, strict=True) as server:
        async with engine_in(project) as engine:
            session = await opened(engine, OPUS)
            seen = await played(engine, session, "Change it @a.txt")
            rejected = cmd.HunkResolve(session=session, path="a.txt", verdict="reject", reason="No")
            await submit(engine, rejected)
            await submit(engine, cmd.ModeSet(session=session, mode="plan"))
            seen += await played(engine, session, "And now?")
        async with engine_in(project) as engine:
            await submit(engine, cmd.SessionResume(session=session))
            seen += await played(engine, session, "Go on")
            usage = engine.state(session).usage
        assert (server.rules.refusals, server.rules.remarks, notices(seen)) == ([], [], [])
    assert_only_appended(server.answered)
    assert [thoughts(request) for request in server.answered] == [0, 2, 3, 4, 5, 5, 5]
    assert server.answered[0].json["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert usage.cached_tokens > usage.prompt_tokens / 2


async def test_after_a_compaction_the_history_begins_anew_and_only_grows_again(project, monkeypatch):
    (project / "a.txt").write_text("a long line of text\n" * 20_000)
    get_config_dir().mkdir(parents=True)
    (get_config_dir() / "config.toml").write_text("[context]\nwindow = 100000\n")
    steps = (
        Step(parts=[Think(text="Look."), READ]),
        Step(parts=[Think(text="Again."), READ]),
        Step(parts=[Think(text="So."), Say(text="Read.")], usage={"prompt": 80_000, "completion": 10}),
        "NOTES",
        Step(parts=[Think(text="New."), Say(text="Next.")]),
        "End.",
    )
    async with serving(monkeypatch, *steps, strict=True) as server, engine_in(project) as engine:
        session = await opened(engine, OPUS)
        await played(engine, session, "Read it")
        await compact(engine, session)
        await played(engine, session, "Next", "End")
        assert server.rules.refusals == []
    assert [thoughts(request) for request in server.answered] == [0, 1, 2, 0, 0, 1]
    assert server.answered[5].raw.startswith(history(server.answered[4]))


async def test_another_model_gets_what_was_said_and_the_first_gets_its_thoughts_back(project, monkeypatch):
    steps = (
        Step(parts=[Think(text="Look."), READ]),
        Step(parts=[Think(text="So."), Say(text="Read.")]),
        Step(parts=[Think(text="Mine."), Say(text="Hello.")]),
        "Back.",
    )
    async with serving(monkeypatch, *steps, strict=True) as server, engine_in(project) as engine:
        session = await opened(engine, OPUS)
        seen = await played(engine, session, "Read it")
        for model in (SONNET, OPUS):
            await submit(engine, cmd.ModelSet(session=session, model=model))
            seen += await played(engine, session, "Go on")
        assert (server.rules.refusals, server.rules.remarks) == ([], [])
    assert [thoughts(request) for request in server.answered] == [0, 1, 0, 2]
    assert notices(seen) == [
        "The reasoning of 2 earlier answers is no longer sent: it came from another model.",
        "The reasoning of 1 earlier answer is no longer sent: it came from another model.",
    ]


async def test_a_refusal_of_thoughts_is_told_and_gone_on_from_without_them(project, monkeypatch):
    refusal = Step(
        status=400,
        error="messages.1.content.0: Invalid `signature` in `thinking` block.",
        error_type="invalid_request_error",
    )
    steps = (Step(parts=[Think(text="Look."), READ]), refusal, Step(parts=[Think(text="So."), Say(text="x")]), "y")
    async with serving(monkeypatch, *steps, strict=True) as server, engine_in(project) as engine:
        session = await opened(engine, OPUS)
        seen = await played(engine, session, "Read it", "On")
        assert server.rules.refusals == []
    assert [thoughts(request) for request in server.answered] == [0, 1, 0, 1]
    assert [event.answers for event in seen if isinstance(event, ev.ReasoningDropped)] == [1]
    assert len(notices(seen)) == 1


@pytest.mark.parametrize("model", [OLD, "anthropic/claude-opus-4-6", SONNET, "anthropic/claude-haiku-5-5"])
async def test_every_generation_is_asked_in_a_way_that_it_takes(project, monkeypatch, model):
    parts = [Say(text="I look."), READ] if model == OLD else [Think(text="Hm."), READ]
    async with serving(monkeypatch, Step(parts=parts), "Read.", strict=True) as server, engine_in(project) as engine:
        await played(engine, await opened(engine, model), "Read it")
        assert server.rules.refusals == []


async def test_an_update_with_other_tools_is_told_of_and_costs_what_was_thought(project, monkeypatch):
    steps = (Step(parts=[Think(text="Look."), READ]), Step(parts=[Think(text="So."), Say(text="Read.")]), "Then.", "x")
    async with serving(monkeypatch, *steps, strict=True) as server:
        with monkeypatch.context() as before:
            before.setattr("core.agent.turn.prompt_setup.load_tool_text", lambda name: f"What {name} was for.")
            async with engine_in(project) as engine:
                session = await opened(engine, OPUS)
                await played(engine, session, "Read it")
        async with engine_in(project) as engine:
            await submit(engine, cmd.SessionResume(session=session))
            seq = engine.state(session).seq
            await played(engine, session, "Go on", "And on")
            notice_events = [
                notice async for notice in events_of(engine, session, after=seq) if isinstance(notice, ev.Notice)
            ]
        assert server.rules.refusals == []
    assert [thoughts(request) for request in server.answered] == [0, 1, 0, 0]
    assert [
        notice.message for notice in notice_events if "tools" in notice.message or "reasoning" in notice.message
    ] == [
        "This version of the program has other tools than the one this session started with.",
        "The reasoning of 2 earlier answers is no longer sent: the conversation before it has changed.",
    ]


async def test_a_fork_and_a_conversation_taken_back_keep_what_was_thought(project, monkeypatch):
    steps = (
        Step(parts=[Think(text="Look."), READ]),
        Step(parts=[Think(text="So."), Say(text="Read.")]),
        Step(parts=[Think(text="More."), Say(text="Second.")]),
        Step(parts=[Think(text="Elsewhere."), Say(text="In the fork.")]),
        "Taken back.",
    )
    async with serving(monkeypatch, *steps, strict=True) as server, engine_in(project) as engine:
        session = await opened(engine, OPUS)
        await played(engine, session, "Read it", "And then")
        forked = await engine.submit(cmd.SessionFork(session=session))
        assert isinstance(forked, cmd.Ack)
        seen = await played(engine, forked.session, "Go on")
        mark = [
            checkpoint for checkpoint in engine.state(session).checkpoints.values() if checkpoint.prompt == "And then"
        ][-1]
        await submit(engine, cmd.CheckpointRestore(session=session, id=mark.id, what="conversation"))
        seen += await played(engine, session, "Otherwise")
        assert (server.rules.refusals, server.rules.remarks, notices(seen)) == ([], [], [])
    assert [thoughts(request) for request in server.answered] == [0, 1, 2, 3, 2]
    third, fork, back = server.answered[2:]
    assert fork.raw.startswith(history(third))
    assert back.raw.startswith(history(server.answered[1]))
