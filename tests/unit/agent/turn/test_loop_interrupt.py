"""Interrupting a turn at every point where it waits: soon quiet, history valid, nothing happens afterwards."""

from __future__ import annotations

import asyncio

import psutil
import pytest

from core.protocol import events as ev
from core.protocol.messages import AssistantMessage, ToolMessage
from core.providers.base import ReasoningDelta, StreamEnd, TextDelta, ToolCallDelta
from core.shell.execution import EFFECTS_STAY
from core.tools.toolset import Toolset
from tests.support.agent_case import Case, calls, says
from tests.support.history import faults

TOOLS = Toolset()

WRITE = ("write", {"file_path": "a.py", "contents": "x = 1\n"})
OPTIONS = [{"id": "a", "label": "A"}, {"id": "b", "label": "B", "recommended": True}]
ASK = ("ask_question", {"questions": [{"id": "q", "prompt": "Which?", "options": OPTIONS}]})
LIST, COMMAND = ("list_dir", {}), ("run_terminal_cmd", {"command": "sleep 30"})


def script() -> list:
    return [
        [ReasoningDelta("Hm"), TextDelta("Let me "), TextDelta("see."), ToolCallDelta(0, id="a", name="list_dir"),
         ToolCallDelta(0, arguments="{}"), ToolCallDelta(1, id="b", name="list_dir", arguments="{}"),
         StreamEnd("tool_calls")],
        calls(LIST, WRITE, LIST, text="And now."),
        calls(COMMAND),
        calls(ASK),
        says("Done."),
    ]  # fmt: skip


def length_of_the_whole_turn(tmp_path) -> int:
    case = Case(tmp_path, *script())
    case.answer_approvals("reject_once")
    asyncio.run(case.turn())
    return len(case.events)


async def interrupted_after(case: Case, count: int) -> int:
    """Interrupt when `count` events were seen; how often the event loop went round until the turn was quiet.

    A loop that always has something to do never rests: whatever is waited for costs thousands of rounds.
    """
    case.answer_approvals("reject_once")
    answer, loop, rounds = case.on_event, asyncio.get_running_loop(), [0]

    def go_round() -> None:
        rounds[0] += 1
        if not case.of(ev.TurnFinished):
            loop.call_soon(go_round)

    def watch(event: ev.AnyEvent) -> None:
        answer(event)
        if len(case.events) == count:
            stopped = case.session.interrupt()
            assert stopped == (case.session.working is not None)
            if stopped:
                loop.call_soon(go_round)

    case.on_event = watch
    await case.turn()
    return rounds[0]


def test_v9_an_interrupt_after_any_event_leaves_a_valid_history(tmp_path):
    whole = length_of_the_whole_turn(tmp_path / "whole" if (tmp_path / "whole").mkdir() is None else tmp_path)
    assert whole > 40
    for count in range(2, whole + 1):
        where = tmp_path / str(count)
        where.mkdir()
        case = Case(where, *script())
        took = asyncio.run(interrupted_after(case, count))
        assert took < 20, f"after event {count}"
        assert faults(case.messages) == [], f"after event {count}: {case.events[count - 1]}"
        requested = [event.call for event in case.of(ev.ToolRequested)]
        finished = [event.call for event in case.of(ev.ToolFinished)]
        assert set(requested) <= set(finished)
        assert len(finished) == len(set(finished))
        assert len(case.of(ev.TurnFinished)) == 1
        assert case.state.approvals == {}
        assert all(question.lasting for question in case.state.questions.values())


@pytest.mark.parametrize("step", [calls(COMMAND), calls(ASK)])
async def test_m14_an_answer_after_the_interrupt_has_no_effect(tmp_path, step):
    case = Case(tmp_path, step)
    asked = asyncio.Event()
    case.on_event = lambda event: isinstance(event, ev.ApprovalRequested | ev.QuestionAsked) and asked.set()
    turn = asyncio.create_task(case.turn())
    await asked.wait()
    await asyncio.sleep(0)
    case.session.interrupt()
    assert (await turn).reason == "interrupted"
    question = (case.of(ev.ApprovalRequested) + case.of(ev.QuestionAsked))[0]
    count = len(case.events)
    assert not case.session.user.resolve_approval(question.id, "allow_once")
    assert not case.session.user.resolve_question(question.id, ())
    assert len(case.events) == count
    assert [event.status for event in case.of(ev.ToolFinished)] == ["cancelled"]
    assert faults(case.messages) == []


async def test_v9_a_running_command_is_gone_and_does_not_go_on(tmp_path):
    case = Case(tmp_path, calls(("run_terminal_cmd", {"command": "echo $$; sleep 1000; touch late"})))
    running = asyncio.Event()
    case.answer_approvals("allow_once")
    approve = case.on_event

    def watch(event: ev.AnyEvent) -> None:
        approve(event)
        if isinstance(event, ev.ToolOutput):
            running.set()

    case.on_event = watch
    turn = asyncio.create_task(case.turn())
    await running.wait()
    pid = int(case.of(ev.ToolOutput)[0].text)
    case.session.interrupt()
    assert (await turn).reason == "interrupted"
    assert not psutil.pid_exists(pid)
    assert not (case.project / "late").exists()
    assert faults(case.messages) == []
    assert case.results()[0].startswith(f"{EFFECTS_STAY}\nIts output until then:\n{pid}")


async def test_a_tool_that_ignores_the_interrupt_has_no_effect_later(tmp_path, monkeypatch):
    release, tried = asyncio.Event(), asyncio.Event()

    async def stubborn(_self, editor):
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        try:
            editor.write("late.py", b"x")
        finally:
            tried.set()

    monkeypatch.setattr(TOOLS["write"], "run", stubborn)
    case = Case(tmp_path, calls(WRITE))
    begun = asyncio.Event()
    case.on_event = lambda event: isinstance(event, ev.ToolRequested) and begun.set()
    turn = asyncio.create_task(case.turn())
    await begun.wait()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    case.session.interrupt()
    assert (await turn).reason == "interrupted"
    count = len(case.events)
    release.set()
    await tried.wait()
    assert len(case.events) == count
    assert case.state.changes == {}


async def test_what_was_said_is_kept_and_marked(tmp_path):
    case = Case(tmp_path, [TextDelta("Half an "), TextDelta("ans"), asyncio.Event()])
    case.on_event = lambda event: (
        isinstance(event, ev.DocumentDelta) and "ans" in event.text and case.session.interrupt()
    )
    await case.turn()
    message = case.messages[-1]
    assert isinstance(message, AssistantMessage)
    assert (message.content, message.interrupted) == ("Half an ans", True)
    assert case.of(ev.DocumentFinished)[0].document.content == "Half an ans"


async def test_after_an_interrupt_the_next_turn_works(tmp_path):
    case = Case(tmp_path, calls(LIST, COMMAND), says("Back."))
    case.on_event = lambda event: isinstance(event, ev.ApprovalRequested) and case.session.interrupt()
    await case.turn()
    assert [m.is_error for m in case.messages if isinstance(m, ToolMessage)] == [False, True]
    assert (await case.turn("Go on")).reason == "done"
    assert faults(case.messages) == []


def test_nothing_to_interrupt_is_said(tmp_path):
    assert not Case(tmp_path).session.interrupt()
