from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from core.protocol import commands as c
from core.protocol import events as e
from core.protocol.documents import TextDocument
from core.protocol.queries import ContextQuery, ModelsAnswer, ModelsQuery, SessionInfo, SessionsAnswer, SessionsQuery
from tests.support import recorded
from tests.support.scripted_client import SESSION, ScriptedClient
from tui.app import AgentApp
from tui.bridge import SessionRequest
from tui.chat.transcript import Greeting
from tui.notices import format_pending_notice
from tui.sessions.home import HomeList
from tui.state import batches
from tui.state.batches import ECHO_DURATION, FLUSH_INTERVAL, TYPING_DURATION, TYPING_INTERVAL, EventBatches

NOW = 1000.0


async def test_a_session_is_opened_with_what_was_wished_for(stage):
    async with stage(wish=SessionRequest(mode="plan", model="openai/x")) as on:
        await on.until(lambda: on.sent(c.SessionOpen))
        assert on.sent(c.SessionOpen) == [c.SessionOpen(mode="plan", model="openai/x")]


async def test_the_latest_session_is_resumed_when_asked_for(stage):
    async with stage(wish=SessionRequest(resume="")) as on:
        assert on.sent(c.SessionResume) == [c.SessionResume(session="")]


def build_waiting_app(client: ScriptedClient) -> tuple[AgentApp, asyncio.Event]:
    """An app whose engine is there when the event is set."""
    gate = asyncio.Event()

    async def connect() -> ScriptedClient:
        await gate.wait()
        return client

    return AgentApp(connect, SessionRequest(model="m")), gate


async def test_a_prompt_typed_before_the_engine_is_there_is_sent_once_it_is():
    client = ScriptedClient()
    app, gate = build_waiting_app(client)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press(*"hi", "enter")
        assert client.commands == []
        gate.set()
        while len(client.commands) < 2:
            await pilot.pause(0.01)
        assert client.commands[1] == c.TurnSubmit(session=SESSION, text="hi")


async def test_a_command_typed_before_the_engine_is_there_is_carried_out_once_it_is():
    client = ScriptedClient(recorded.opening())
    app, gate = build_waiting_app(client)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press(*"/context", "enter")
        assert app.main.context.prompt.text == ""
        gate.set()
        while ContextQuery(session=SESSION) not in client.queries:
            await pilot.pause(0.01)


async def test_a_dead_engine_is_started_again_and_nothing_appears_or_is_changed_twice():
    first = ScriptedClient([*recorded.opening(), *recorded.turn()])
    second = ScriptedClient([*recorded.opening(), *recorded.turn()])
    clients = [first, second]

    async def connect() -> ScriptedClient:
        return clients.pop(0)

    app = AgentApp(connect, SessionRequest(resume=SESSION, changes=(c.ModeSet(mode="ask"),)))
    async with app.run_test(size=(100, 30)) as pilot:
        while app.main.state.seq < len(first.log):
            await pilot.pause(0.01)
        assert first.commands == [c.SessionResume(session=SESSION), c.ModeSet(session=SESSION, mode="ask")]
        before = [block.key for block in app.main.state.blocks]
        first.die()
        while not second.commands:
            await pilot.pause(0.01)
        assert second.commands == [c.SessionResume(session=SESSION)]
        second.emit(e.DocumentFinished(document=TextDocument(id="more", sequence=1, content="after")))
        while "more" not in app.main.state.transcript.by_key:
            await pilot.pause(0.01)
        assert [block.key for block in app.main.state.blocks] == [*before, "more"]
        assert first.closed


class DyingClient(ScriptedClient):
    """Ends in the middle of a command, before or after it wrote the turn to its log."""

    def __init__(self, *, writes: bool) -> None:
        super().__init__(recorded.opening())
        self._writes = writes

    async def submit(self, command: c.AnyCommand) -> c.Reply:
        if isinstance(command, c.TurnSubmit):
            self.commands.append(command)
            if self._writes:
                self.emit(e.TurnStarted(prompt="fix it", mode="agent", model="m"))
            self.die()
        return await super().submit(command)


@pytest.mark.parametrize("was_written", [True, False])
async def test_a_prompt_under_way_when_the_engine_ended_runs_once(was_written):
    first = DyingClient(writes=was_written)
    second = ScriptedClient([envelope.event for envelope in first.log])
    clients: list[ScriptedClient] = [first, second]

    async def connect() -> ScriptedClient:
        if len(clients) == 1 and was_written:
            second.emit(e.TurnStarted(prompt="fix it", mode="agent", model="m"))
            second.emit(e.TurnFinished(reason="interrupted"))
        return clients.pop(0)

    app = AgentApp(connect, SessionRequest(model="m"))
    async with app.run_test(size=(100, 30)) as pilot:
        while not app.main.state.session_id:
            await pilot.pause(0.01)
        await pilot.press(*"fix it", "enter")
        while len(second.commands) < (1 if was_written else 2):
            await pilot.pause(0.01)
        await pilot.pause(0.1)
        resent = [command for command in second.commands if isinstance(command, c.TurnSubmit)]
        assert [command.text for command in resent] == ([] if was_written else ["fix it"])
        assert app.main.query_one("#prompt").text == ""


class DeafClient(ScriptedClient):
    """Ends when it is sent a command of this kind, and never answers it."""

    def __init__(self, kind: type[c.AnyCommand]) -> None:
        super().__init__(recorded.opening())
        self._kind = kind

    async def submit(self, command: c.AnyCommand) -> c.Reply:
        if isinstance(command, self._kind):
            self.die()
        return await super().submit(command)


@asynccontextmanager
async def survived(command: c.AnyCommand) -> AsyncIterator[tuple[c.Reply, list[c.AnyCommand]]]:
    """The reply to a command during which the engine ended, and what its successor was sent of that kind."""
    second = ScriptedClient(recorded.opening())
    clients: list[ScriptedClient] = [DeafClient(type(command)), second]

    async def connect() -> ScriptedClient:
        return clients.pop(0)

    app = AgentApp(connect, SessionRequest(model="m"))
    async with app.run_test(size=(100, 30)):
        reply = await app.main.bridge.submit(command)
        yield reply, [sent_command for sent_command in second.commands if isinstance(sent_command, type(command))]


ONCE = [
    c.HunkResolve(path="", verdict="accept"),
    c.HunkResolve(path="a.py", hunks=("h1",), verdict="reject"),
    c.BulkResolve(root=".git", verdict="accept", confirmed=True),
    c.VerdictUndo(),
    c.CommandRun(command="make deploy"),
    c.PlanBuild(path="plan.md"),
    c.ContextCompact(),
    c.CheckpointRestore(id="chk_1"),
]


@pytest.mark.parametrize("command", ONCE, ids=lambda each: type(each).__name__)
async def test_what_must_not_be_done_twice_is_not_sent_again_when_the_engine_ended_with_it(command):
    async with survived(command) as (reply, sent_again):
        assert isinstance(reply, c.Reject)
        assert (reply.code, reply.hint) == ("engine_gone", "Check before you retry: it may have been done.")
        assert sent_again == []


async def test_what_has_no_second_effect_is_sent_again_when_the_engine_ended_with_it():
    async with survived(c.ModeSet(mode="ask")) as (reply, sent_again):
        assert isinstance(reply, c.Ack)
        assert sent_again == [c.ModeSet(session=SESSION, mode="ask")]


async def test_the_user_is_told_that_a_verdict_may_have_been_taken_back_when_the_engine_ended():
    first, second = DeafClient(c.VerdictUndo), ScriptedClient(recorded.opening())
    clients: list[ScriptedClient] = [first, second]

    async def connect() -> ScriptedClient:
        return clients.pop(0)

    app = AgentApp(connect, SessionRequest(model="m"))
    async with app.run_test(size=(100, 30)) as pilot:
        while not app.main.state.session_id:
            await pilot.pause(0.01)
        app.main.controllers.review.action_undo_verdict()
        while not any("before it answered" in notification.message for notification in app._notifications):
            await pilot.pause(0.01)
        assert [command for command in second.commands if isinstance(command, c.VerdictUndo)] == []


async def test_a_refused_prompt_comes_back_and_says_why(stage):
    def refuse(_: ScriptedClient, command: c.AnyCommand) -> c.Reply | None:
        refusal = c.Reject(code="no_model", message="No model is chosen.", hint="/model chooses one.")
        return refusal if isinstance(command, c.TurnSubmit) else None

    async with stage(react=refuse) as on:
        await on.pilot.press(*"hello", "enter")
        await on.until(lambda: on.prompt.text == "hello")
        assert [note.message for note in on.app._notifications] == ["No model is chosen. /model chooses one."]


async def test_a_prompt_that_meets_a_running_turn_steers_it(stage):
    def refuse(_: ScriptedClient, command: c.AnyCommand) -> c.Reply | None:
        busy = c.Reject(code="turn_running", message="A turn is running.")
        return busy if isinstance(command, c.TurnSubmit) else None

    async with stage(react=refuse) as on:
        await on.pilot.press(*"also", "enter")
        await on.until(lambda: on.sent(c.TurnSteer))
        assert on.sent(c.TurnSteer)[0].text == "also"


async def test_the_first_run_asks_and_enter_takes_the_demo(stage):
    async with stage(wish=SessionRequest(), answers={ModelsQuery: ModelsAnswer(models=(), providers=())}) as on:
        await on.until(lambda: type(on.app.screen).__name__ == "WelcomeDialog")
        await on.pilot.pause(0.05)
        await on.pilot.press("enter")
        await on.until(lambda: on.sent(c.SessionOpen))
        assert on.sent(c.SessionOpen)[0].demo


async def test_another_session_takes_the_place_of_the_old_one(stage):
    def react(client: ScriptedClient, command: c.AnyCommand) -> c.Reply | None:
        if isinstance(command, c.SessionResume):
            return c.Ack(session="ses_other")
        if isinstance(command, c.SessionClose):
            client.emit(e.SessionClosed())
            return c.Ack(session=command.session)
        return None

    async with stage([*recorded.opening(), *recorded.turn()], react=react) as on:
        on.screen.controllers.sessions.action_choose_session("ses_other")
        await on.until(lambda: on.screen.state.session_id == "ses_other")
        assert on.sent(c.SessionClose) == [c.SessionClose(session=SESSION)]


@pytest.mark.parametrize("lossy", [1, 400])
async def test_deltas_reach_the_screen(stage, lossy):
    start = e.TurnStarted(prompt="go", mode="agent", model="m")
    async with stage([*recorded.opening(), start, e.DocumentStarted(id="x", kind="text", sequence=1)]) as on:
        for number in range(lossy):
            on.client.emit(e.DocumentDelta(id="x", text=f"word{number} "))
        await on.until(lambda: any(f"word{lossy - 1}" in line for line in on.lines()))
        assert on.screen.state.transcript.by_key["x"].live.endswith(f"word{lossy - 1} ")


class TimedBatches(EventBatches):
    """Batches at a time that stands still, which keep for how long they wait."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(lambda topics: None)
        self.waits: list[float] = []
        monkeypatch.setattr(batches, "time", SimpleNamespace(monotonic=lambda: NOW))

    def _restart(self, wait: float) -> None:
        self.waits.append(wait)
        super()._restart(3600)


@pytest.mark.parametrize(
    ("since", "cost", "waits"),
    [
        pytest.param(0.0, 0.0, [TYPING_INTERVAL], id="the last ones are just shown"),
        pytest.param(0.2, 0.0, [0.05, ECHO_DURATION], id="it is about time"),
        pytest.param(0.3, 0.0, [0.0, ECHO_DURATION], id="it is time"),
        pytest.param(9.0, 0.0, [0.0], id="after a rest"),
        pytest.param(0.2, 0.1, [0.1], id="to show them takes long"),
    ],
)
async def test_what_comes_while_the_user_types_is_shown_in_the_pause_after_a_key(monkeypatch, since, cost, waits):
    batches = TimedBatches(monkeypatch)
    batches.typed_at, batches.flushed_at, batches.cost = NOW, NOW - since, cost
    batches.add(frozenset({"blocks"}))
    batches.note_typing()
    batches.cancel()
    assert batches.waits == pytest.approx(waits)


async def test_what_comes_is_shown_less_often_while_the_user_types_but_not_when_they_have_sent(stage):
    async with stage() as on:
        await on.all_shown()
        bridge = on.screen.bridge
        bridge.batches.flushed_at = bridge.batches.typed_at = 100.0
        bridge.batches.cost = 0.001
        assert bridge.batches.measure_wait(100.0) == pytest.approx(TYPING_INTERVAL)
        assert bridge.batches.measure_wait(100.0 + TYPING_DURATION) == 0.0
        assert bridge.batches.measure_wait(100.0, is_end=True) == pytest.approx(TYPING_INTERVAL)
        bridge.batches.typed_at = float("-inf")
        assert bridge.batches.measure_wait(100.0) == pytest.approx(FLUSH_INTERVAL)
        assert bridge.batches.measure_wait(100.0, is_end=True) == pytest.approx(0.003)
        on.prompt.text = "words"
        await on.until(lambda: bridge.batches.typed_at > 0)
        bridge.batches.typed_at = float("-inf")
        on.prompt.text = ""
        await on.pilot.pause()
        assert bridge.batches.typed_at < 0


async def test_the_end_of_an_answer_to_what_was_just_typed_does_not_wait_for_the_typing_to_be_over(stage):
    start = e.TurnStarted(prompt="go", mode="agent", model="m")
    async with stage(recorded.opening()) as on:
        await on.all_shown()
        await on.pilot.press("g", "o")
        batches, ends = on.screen.bridge.batches, list[bool]()
        await on.until(lambda: batches.typed_at > 0)
        await on.pilot.press("enter")
        await on.until(lambda: on.sent(c.TurnSubmit))
        assert batches.typed_at < 0
        wait = batches.measure_wait
        batches.measure_wait = lambda now, *, is_end=False: ends.append(is_end) or wait(now, is_end=is_end)
        await on.emit(start, e.DocumentStarted(id="x", kind="text", sequence=1), e.DocumentDelta(id="x", text="short"))
        assert ends
        assert not any(ends)
        await on.emit(e.DocumentFinished(document=TextDocument(id="x", sequence=1, content="short")))
        assert ends[-1]


def held(name: str, **more: object) -> SessionInfo:
    return SessionInfo(
        **{"id": name, "title": "Fix it", "started": 1, "updated": 1, "model": "m", "mode": "agent"} | more
    )


async def test_opening_a_session_says_what_waits_in_another_one_and_how_to_get_there(stage):
    one = (held(SESSION, pending=9), held("ses_b", pending=7), held("ses_c", pending=1, locked=True), held("ses_d"))
    assert format_pending_notice((*one, held("ses_e", pending=1)), SESSION).startswith("8 files to review")
    notice = "7 files to review in “Fix it”: /resume ses_b"
    async with stage(recorded.opening(), answers={SessionsQuery: SessionsAnswer(sessions=one)}) as on:
        await on.until(lambda: on.screen.query(HomeList) and on.screen.query_one(HomeList).options)
        rows = [str(option.prompt) for option in on.screen.query_one(HomeList).options]
        assert any("Fix it" in row and "7 to review" in row for row in rows)  # where it is opened by a key
        assert notice not in str(on.screen.query_one(Greeting).visual)
        assert not on.app._notifications
    went_on = [*recorded.opening(), *recorded.turn()]
    async with stage(
        went_on, wish=SessionRequest(resume=""), answers={SessionsQuery: SessionsAnswer(sessions=one)}
    ) as on:
        await on.until(lambda: [notification.message for notification in on.app._notifications] == [notice])
        assert on.screen.state.blocks
