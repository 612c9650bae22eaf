"""Answers of models that go wrong, on every wire, through the engine: what the next request is, and what is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.messages import AssistantMessage, ToolMessage
from tests.contract.test_append_only import READ, assert_only_appended, on_every_wire, project, strict, thought
from tests.contract.test_void_reasoning import assert_none_refused
from tests.integration.test_engine_provider import opened
from tests.support import wires
from tests.support.history import faults
from tests.support.open_session import engine_in, run_turn, submit
from tests.support.provider_server import ProviderServer
from tests.support.provider_streams import Call, Say, Step, Think

__all__ = ["project"]

MUCH = "So far so good, and on it goes. " * 8
SAID = thought(Say(text=MUCH))


async def talk(monkeypatch, project, wire: str, *steps: Step | str, prompts: int = 2) -> tuple[ProviderServer, Any]:
    """A session of so many prompts. Returns the server and all events; the history is one that every API takes."""
    async with strict(monkeypatch, *steps) as server, engine_in(project) as engine:
        session = await opened(engine, wires.MODELS[wire])
        seen: list[Any] = []
        for number in range(prompts):
            seen += await run_turn(engine, session, f"Prompt {number}")
        assert faults(engine.state(session).messages) == []
    assert server.rules is not None
    assert server.rules.refusals == []
    return server, seen


def ends(seen: list[Any]) -> list[str]:
    return [event.reason for event in seen if isinstance(event, ev.TurnFinished)]


def codes(seen: list[Any]) -> list[str]:
    """Of what was tried again, as the user saw it."""
    return [event.code for event in seen if isinstance(event, ev.StepRetried)]


def answered(seen: list[Any]) -> list[AssistantMessage]:
    messages = [event.message for event in seen if isinstance(event, ev.MessageAppended)]
    return [message for message in messages if isinstance(message, AssistantMessage)]


@on_every_wire
@pytest.mark.parametrize("finish", ["", "length"])
async def test_reasoning_that_nothing_follows_does_not_go_back(project, monkeypatch, wire, finish):
    alone = Step(parts=[Think(text="I think and think, and that is all.")], finish=finish)
    server, seen = await talk(monkeypatch, project, wire, alone, SAID, thought(READ), SAID)
    assert ends(seen) == ["done", "done"]
    assert b"that is all" not in server.answered[-1].raw
    assert_only_appended(server)


FORMS = [{"newline": "\r\n"}, {"comments": True}, {"write_size": 1}, {"newline": "\r\n", "comments": True}]


@on_every_wire
@pytest.mark.parametrize("form", FORMS, ids=str)
async def test_the_form_of_a_stream_does_not_matter(project, monkeypatch, wire, form):
    text = "Größe 日本語 👩‍👩‍👧 — « fin »"
    steps = [thought(Say(text=text), READ, **form), thought(Say(text=text), **form), Step(text=text, **form)]
    server, seen = await talk(monkeypatch, project, wire, *steps)
    assert [message.content for message in answered(seen)] == [text] * 3
    assert_only_appended(server)


@pytest.mark.parametrize("wire", ["chat", "messages"])
async def test_an_end_mark_that_is_missing_is_not_missed(project, monkeypatch, wire):
    end = thought(Say(text="End."), done_mark=False)
    _, seen = await talk(monkeypatch, project, wire, thought(READ, done_mark=False), end, end)
    assert (ends(seen), codes(seen)) == (["done", "done"], [])


@on_every_wire
@pytest.mark.parametrize("place", ["before", "text", "tool"])
async def test_an_error_in_the_middle_is_told_and_the_step_tried_again(project, monkeypatch, wire, place):
    kind = "overloaded_error" if wire == "messages" else "server_error"
    args = {"target_file": "a.txt", "note": MUCH}
    broken = thought(Say(text=MUCH), Call(name="read_file", arguments=args), error_at=place, error_type=kind)
    server, seen = await talk(monkeypatch, project, wire, broken, thought(READ), SAID, SAID)
    assert ends(seen) == ["done", "done"]
    (retried,) = [event for event in seen if isinstance(event, ev.StepRetried)]
    assert "it failed" in retried.message
    assert len(answered(seen)) == 3
    assert len(server.answered) == 4


@on_every_wire
async def test_silence_is_a_time_out_that_is_told_and_tried_again(project, monkeypatch, wire):
    monkeypatch.setattr("core.providers.connection.event_stream.SILENCE_SECONDS", 0.2)
    monkeypatch.setattr("core.providers.registry.LOCAL_STALL_SECONDS", 120.0)
    silent = Step(text=MUCH, hang="text")
    server, seen = await talk(monkeypatch, project, wire, silent, SAID, SAID)
    assert codes(seen) == ["stalled"]
    (retried,) = [event for event in seen if isinstance(event, ev.StepRetried)]
    assert "sent nothing for 0.2 s" in retried.message
    assert ends(seen) == ["done", "done"]
    assert len(server.answered) == 3


@on_every_wire
async def test_a_hundred_calls_in_one_answer_all_have_a_result(project, monkeypatch, wire):
    many = [Call(name="read_file", arguments={"target_file": f"none-{number}.txt"}) for number in range(100)]
    server, seen = await talk(monkeypatch, project, wire, thought(*many), SAID, SAID)
    messages = [event.message for event in seen if isinstance(event, ev.MessageAppended)]
    assert sum(isinstance(message, ToolMessage) for message in messages) == 100
    assert ends(seen) == ["done", "done"]
    assert_only_appended(server)


@on_every_wire
async def test_five_megabytes_of_arguments_go_through(project, monkeypatch, wire):
    text = ("0123456789" * 6 + "abc\n") * 76_000  # 4.9 MB as JSON, and 5.0 are the most
    write = Call(name="search_replace", arguments={"file_path": "big.txt", "old_string": "", "new_string": text})
    async with strict(monkeypatch, thought(write, piece=50_000), SAID, SAID) as server, engine_in(project) as engine:
        session = await opened(engine, wires.MODELS[wire])
        for prompt in ("Write it", "And now?"):
            assert (await run_turn(engine, session, prompt))[-1].reason == "done"
        accept = cmd.HunkResolve(session=session, path="big.txt", verdict="accept")
        await submit(engine, accept)
    assert_none_refused(server)
    assert_only_appended(server)
    assert (project / "big.txt").read_text() == text


@on_every_wire
@pytest.mark.parametrize("ids", [(None, None), ("same", "same"), ("", "same"), ("a b/ü", "x" * 300)], ids=str)
async def test_ids_that_are_missing_or_twice_or_odd_keep_calls_and_results_together(project, monkeypatch, wire, ids):
    (project / "c.txt").write_text("the other\n")
    calls = [Call(name="read_file", arguments={"target_file": name}) for name in ("a.txt", "c.txt")]
    odd = [Call(**{**call.__dict__, "id": name}) for call, name in zip(calls, ids, strict=True)]
    steps = (Step(calls=odd), Step(calls=odd), SAID, SAID)
    server, seen = await talk(monkeypatch, project, wire, *steps)
    server.rules.remarks.clear()  # an id that was given twice can't go back as it was
    assert ends(seen) == ["done", "done"]
    results = [event.message for event in seen if isinstance(event, ev.MessageAppended)]
    contents = [result.content for result in results if isinstance(result, ToolMessage)]
    assert [("two" in content, "the other" in content) for content in contents] == [(True, False), (False, True)] * 2
    assert_only_appended(server)


@on_every_wire
async def test_half_a_character_in_text_and_arguments_never_makes_a_request_invalid(project, monkeypatch, wire):
    half = Call(name="grep", arguments='{"pattern": "x\\ud83d"}')
    step = Step(parts=[Think(text="Hm"), Say(text="It is \ud83d so"), half])
    server, seen = await talk(monkeypatch, project, wire, step, SAID, SAID)
    server.rules.remarks.clear()  # nor can half a character
    assert ends(seen) == ["done", "done"]
    json.loads(server.answered[-1].raw.decode())
    assert_only_appended(server)


@on_every_wire
async def test_a_model_that_answers_nothing_is_asked_again_and_then_given_up(project, monkeypatch, wire):
    nothing = Step(text="")
    server, seen = await talk(monkeypatch, project, wire, nothing, SAID, nothing, nothing, nothing, SAID)
    assert ends(seen) == ["done", "failed"]
    assert [event.code for event in seen if isinstance(event, ev.ErrorRaised)] == ["empty_answer"]
    assert_only_appended(server)


async def test_a_thought_that_can_not_be_sent_back_as_it_came_is_given_up_once(project, monkeypatch):
    step = Step(parts=[Think(text="Hm \ud83d"), READ])
    async with strict(monkeypatch, step, SAID, SAID) as server, engine_in(project) as engine:
        session = await opened(engine, wires.MODELS["messages"])
        seen = [*await run_turn(engine, session, "one"), *await run_turn(engine, session, "two")]
    assert ends(seen) == ["done", "done"]
    assert len(server.rules.refusals) <= 1
    assert codes(seen) in ([], ["reasoning_refused"])
