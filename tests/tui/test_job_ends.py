"""The end of a background command: who is notified of it, and where it is seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.protocol import events as e
from core.protocol import queries as q
from core.protocol.queries.sessions import NotificationSettings
from tests.support import recorded
from tui.widgets.status_bar import StatusBar

SERVES = e.JobStarted(id="job_1", call="c", command="npm run dev")
FAILED = e.JobEnded(id="job_1", command="npm run dev", ended="exited", exit_code=1)
PASSED = e.JobEnded(id="job_1", command="npm run dev", ended="exited", exit_code=0)
STOPPED = e.JobEnded(id="job_1", command="npm run dev", ended="stopped")
TIMED_OUT = e.JobEnded(id="job_1", command="npm run dev", ended="timed_out")
HAS_FAILED = "job_1 failed (exit code 1): npm run dev"
EVENTS = [*recorded.opening(), *recorded.turn(), SERVES]


@pytest.fixture
def heard(tmp_path) -> Path:
    """The file that the program of a notification writes its text to."""
    return tmp_path / "heard"


@pytest.fixture
def answers(tmp_path, heard) -> dict[type, Any]:
    program = tmp_path / "tell"
    program.write_text(f'#!/bin/sh\nprintf "%s" "$2" > {heard}.new\nmv {heard}.new {heard}\n')
    program.chmod(0o755)
    return {q.SettingsQuery: q.SettingsAnswer(notify=NotificationSettings(command=(str(program),)))}


async def adopted(on: Any) -> None:
    await on.until(lambda: on.screen.controllers.attention.settings.command)


def is_notifying(on: Any) -> bool:
    return any(worker.group == "notifying" for worker in on.app.workers)


def read_toasts(on: Any) -> list[str]:
    return [notification.message for notification in on.app._notifications]


def read_bar(on: Any) -> str:
    return str(on.screen.query_one(StatusBar).render())


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (FAILED, HAS_FAILED),
        (PASSED, "job_1 ended (exit code 0): npm run dev"),
        (TIMED_OUT, "job_1 failed (timed out): npm run dev"),
    ],
)
async def test_a_user_who_is_away_is_notified_with_the_command_and_its_exit_code(stage, answers, heard, end, text):
    async with stage(EVENTS, answers=answers) as on:
        await adopted(on)
        on.app.app_focus = False
        await on.emit(end)
        await on.until(heard.exists)
        assert heard.read_text() == text


@pytest.mark.parametrize(("size", "keys"), [((80, 24), ["ctrl+r"]), ((120, 40), ["ctrl+p"])], ids=["pane", "dialog"])
async def test_a_user_who_looks_at_something_else_is_notified(stage, answers, heard, size, keys):
    async with stage(EVENTS, answers=answers, size=size) as on:
        await adopted(on)
        await on.pilot.press(*keys)
        await on.until(lambda: not on.screen.controllers.attention._is_conversation_visible)
        await on.emit(FAILED)
        await on.until(heard.exists)
        assert heard.read_text() == HAS_FAILED
        assert read_toasts(on) == [f"{HAS_FAILED}. /jobs shows its output."]


async def test_a_user_who_sees_the_conversation_is_not_notified(stage, answers):
    async with stage(EVENTS, answers=answers) as on:
        await adopted(on)
        await on.emit(PASSED)
        assert any("job_1 ended: npm run dev" in line for line in on.lines())
        assert not is_notifying(on)
        assert read_toasts(on) == []


async def test_a_command_that_was_stopped_and_one_of_an_earlier_time_notify_nobody(stage, answers):
    async with stage([*EVENTS, FAILED], answers=answers) as on:
        await adopted(on)
        on.app.app_focus = False
        await on.emit(e.JobStarted(id="job_2", call="c", command="make"))
        await on.emit(e.JobEnded(id="job_2", command="make", ended="stopped"))
        assert not is_notifying(on)
        assert read_toasts(on) == []


async def test_a_failure_stays_in_the_status_bar_until_the_user_looks_or_goes_on(stage):
    jobs = q.JobsAnswer(
        jobs=(q.JobInfo(id="job_1", command="npm run dev", directory=".", duration_ms=9, ended="exit code 1"),)
    )
    async with stage(EVENTS, answers={q.JobsQuery: jobs}) as on:
        await on.emit(PASSED)
        assert "failed" not in read_bar(on)
        await on.emit(FAILED)
        assert "job_1 failed" in read_bar(on)
        await on.emit(e.TurnStarted(prompt="job_1 ended", mode="agent", model="m", cause="job"))
        assert "job_1 failed" in read_bar(on)
        await on.emit(e.TurnFinished(reason="done"))
        await on.open_listing("/jobs", "JobsDialog")
        await on.pilot.press("escape")
        await on.until(lambda: "failed" not in read_bar(on))
        await on.emit(TIMED_OUT, e.JobEnded(id="job_2", command="make", ended="exited", exit_code=2))
        assert "2 jobs failed" in read_bar(on)
        await on.emit(e.TurnStarted(prompt="go on", mode="agent", model="m"))
        assert "failed" not in read_bar(on)
