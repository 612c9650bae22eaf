"""A private session on the screen: its mark, and what is asked before it is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.protocol import commands as c
from core.protocol import events as e
from core.protocol.queries import SessionInfo, SessionsAnswer, SessionsQuery
from tests.support import recorded
from tests.tui.conftest import Stage
from tui.dialogs.picker import PickerDialog
from tui.notices import format_exit_summary
from tui.screens.controllers.editor import find_scratch_directory
from tui.widgets.status_bar import StatusBar

STARTED = e.SessionStarted(workspace="shop", mode="agent", model="scripted/demo", private=True)
WAITING = [STARTED, e.ChangeProposed(change=recorded.change())]


async def asked(on: Stage) -> None:
    await on.pilot.press("ctrl+q")
    await on.until(lambda: isinstance(on.app.screen, PickerDialog))


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (60, 16)])
async def test_a_private_session_says_so_in_the_status_line(stage, size):
    async with stage([STARTED], size=size) as on:
        assert "private" in str(on.screen.query_one(StatusBar).render())


async def test_before_it_is_left_what_waits_is_asked_about_and_can_be_kept(stage, monkeypatch):
    monkeypatch.setattr("sys.argv", ["agent-tui"])
    async with stage(WAITING) as on:
        await asked(on)
        await on.pilot.press("enter")
        await on.until(lambda: on.sent(c.PendingKeep) and on.app._exit)
        exit_summary = format_exit_summary(on.screen.state, Path("shop"))
        assert exit_summary == ("Private: the conversation was not kept. Review the kept changes: agent-tui review\n")


async def test_it_can_be_dropped_or_gone_on_with(stage):
    async with stage(WAITING) as on:
        await asked(on)
        await on.pilot.press("escape")
        await on.until(lambda: not isinstance(on.app.screen, PickerDialog))
        assert not on.app._exit
        await asked(on)
        await on.pilot.press("down", "enter")
        await on.until(lambda: on.app._exit)
        assert on.sent(c.PendingKeep) == []
        assert format_exit_summary(on.screen.state, Path("shop")) == "Private: the conversation was not kept.\n"


async def test_with_nothing_to_review_nothing_is_asked(stage):
    async with stage([STARTED]) as on:
        await on.pilot.press("ctrl+q")
        await on.until(lambda: on.app._exit)
        assert not isinstance(on.app.screen, PickerDialog)


async def test_what_can_not_be_kept_leaves_the_screen_as_it_is(stage):
    def react(_: object, command: c.AnyCommand) -> c.Reply | None:
        return (
            c.Reject(code="state_unusable", message="the disk is full.") if isinstance(command, c.PendingKeep) else None
        )

    async with stage(WAITING, react=react) as on:
        await asked(on)
        await on.pilot.press("enter")
        await on.until(lambda: on.app._notifications)
        assert not on.app._exit


async def test_private_sessions_that_came_before_are_asked_about_as_well(stage):
    earlier = SessionInfo(id="ses_2", title="t", started=1, updated=1, model="m", mode="agent", pending=2)
    async with stage([STARTED], answers={SessionsQuery: SessionsAnswer(sessions=(earlier,))}) as on:
        on.client._react = lambda _, command: c.Ack() if isinstance(command, c.PendingKeep) else None
        await asked(on)
        await on.pilot.press("enter")
        await on.until(lambda: on.app._exit)
        assert [sent_command.session for sent_command in on.sent(c.PendingKeep)] == ["ses_2"]


def test_the_editors_file_of_a_private_session_is_in_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert (find_scratch_directory(is_private=True), find_scratch_directory(is_private=False)) == (str(tmp_path), None)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "missing"))
    assert find_scratch_directory(is_private=True) in {"/dev/shm", None}
