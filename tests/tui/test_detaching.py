"""Leaving a session that goes on, and what a screen shows of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.protocol import commands as c
from core.protocol import events as e
from tests.support import recorded
from tests.support.scripted_client import SESSION, ScriptedClient
from tui.app import AgentApp
from tui.bridge import SessionRequest
from tui.dialogs.pages import ConfirmDialog
from tui.notices import format_exit_summary
from tui.widgets.status_bar import StatusBar

RUNNING = [*recorded.opening(), e.TurnStarted(prompt="fix it", mode="agent", model="m")]


@pytest.mark.parametrize("keys", [["f10"], [*"/detach", "enter"]])
async def test_a_key_and_a_command_leave_a_running_turn_unasked_and_say_how_to_come_back(stage, keys):
    async with stage(RUNNING) as on:
        await on.pilot.press(*keys)
        await on.until(lambda: on.app._exit)
        assert on.sent(c.SessionDetach) == [c.SessionDetach(session=SESSION)]
        assert on.sent(c.TurnInterrupt) == []
        assert on.app.main.bridge.is_detached
        assert f"attach {SESSION}" in format_exit_summary(on.app.main.state, Path.cwd(), goes_on=True)


async def test_a_session_that_can_t_be_detached_stays_on_the_screen_with_the_reason(stage):
    def react(_: object, command: c.AnyCommand) -> c.Reply | None:
        return c.Reject(code="private", message="it is private.") if isinstance(command, c.SessionDetach) else None

    async with stage(RUNNING, react=react) as on:
        await on.pilot.press("f10")
        await on.until(lambda: on.app._notifications)
        assert "it is private" in next(iter(on.app._notifications)).message
        assert not on.app._exit
        assert not on.app.main.bridge.is_detached


async def test_several_screens_are_told_of_and_one_of_them_is_left_unasked(stage):
    async with stage(RUNNING) as on:
        assert "clients" not in str(on.screen.query_one(StatusBar).render())
        on.client.emit(e.ClientsChanged(count=2))
        await on.until(lambda: "2 clients" in str(on.screen.query_one(StatusBar).render()))
        on.client.emit(e.ClientsChanged(count=1))
        await on.until(lambda: "clients" not in str(on.screen.query_one(StatusBar).render()))
        await on.pilot.press("ctrl+q")
        await on.until(lambda: isinstance(on.app.screen, ConfirmDialog))
        await on.pilot.press("escape")
        on.client.emit(e.ClientsChanged(count=2))
        await on.until(lambda: on.app.main.state.client_count == 2)
        await on.pilot.press("ctrl+q")
        await on.until(lambda: on.app._exit)


async def test_a_session_that_another_screen_took_up_faster_is_attached_to():
    def react(_: object, command: c.AnyCommand) -> c.Reply | None:
        is_resume = isinstance(command, c.SessionResume)
        return c.Reject(code="session_locked", message="open in another agent-tui.") if is_resume else None

    first, third = ScriptedClient(recorded.opening()), ScriptedClient(recorded.opening())
    slower = ScriptedClient(recorded.opening(), react=react)
    clients = [first, slower, third]

    async def connect() -> ScriptedClient:
        return clients.pop(0)

    app = AgentApp(connect, SessionRequest(model="m"))
    async with app.run_test(size=(100, 30)) as pilot:
        while app.main.state.seq < len(first.log):
            await pilot.pause(0.01)
        first.die()
        while not third.commands:
            await pilot.pause(0.01)
        assert third.commands == [c.SessionResume(session=SESSION)]
        assert slower.closed


async def test_what_comes_while_the_screen_is_already_gone_is_not_shown(stage):
    async with stage(recorded.opening()) as on:
        heard = []
        submit = on.client.submit

        async def keep(command):  # the draft is kept after the screen has gone, and the engine may still speak
            if isinstance(command, c.DraftKeep):
                heard.append(list(on.screen.children))
                on.screen.bridge.batches._topics |= {"blocks", "review", "status"}
                on.screen.bridge.batches._flush()
            return await submit(command)

        on.client.submit = keep
        await on.pilot.press(*"half a thought")
        on.app.exit()
    assert heard == [[]]
