"""Background commands with their output, and messages that wait to be sent."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from textual.containers import VerticalScroll
from textual.widgets import OptionList, Static

from core.protocol import commands as c
from core.protocol import events as e
from core.protocol import queries as q
from tests.support import recorded
from tui.dialogs.listings.jobs import JobsDialog
from tui.screens.controllers.turn import QueueDialog

SERVES = q.JobInfo(
    id="job_2",
    command="npm run dev",
    directory=".",
    duration_ms=65_000,
    output="\n".join(f"line {at}" for at in range(90)),
    changed=("dist/a.js", "[red]b.js"),
    changed_count=9,
)
ENDED = replace(
    SERVES, id="job_1", command="make", output="", changed=(), changed_count=0, ended="exit code 2, changed: made x"
)
RUNNING = e.TurnStarted(prompt="go", mode="agent", model="m")


def shown(on: Any, name: str) -> str:
    return str(on.app.screen.query_one(name, Static).render())


async def open_jobs(on: Any) -> JobsDialog:
    await on.emit(e.JobStarted(id="job_2", call="c", command="npm run dev"))
    await on.open_listing("/jobs", "JobsDialog")
    return on.app.screen


async def test_a_job_shows_the_end_of_its_output_and_what_it_has_changed_so_far(stage):
    async with stage(recorded.opening(), answers={q.JobsQuery: q.JobsAnswer(jobs=(SERVES, ENDED))}) as on:
        dialog = await open_jobs(on)
        assert str(dialog.query_one(".dialog-title", Static).render()) == "Background commands"
        assert "job_2  running for 1 min 5 s  npm run dev" in str(dialog.query_one(OptionList).options[0].prompt)
        assert shown(on, "#jobs-changed") == "9 paths changed so far: dist/a.js, [red]b.js, 7 more"
        view = dialog.query_one(VerticalScroll)
        await on.until(lambda: view.max_scroll_y and view.scroll_offset.y == view.max_scroll_y)
        await on.pilot.press("pageup")
        assert view.scroll_offset.y < view.max_scroll_y
        await on.pilot.press("pagedown")
        assert view.scroll_offset.y == view.max_scroll_y
        await on.pilot.resize_terminal(60, 16)
        await on.until(lambda: view.size.width < 60 and view.scroll_offset.y == view.max_scroll_y > 0)
        keys = dialog.query_one("#listing-keys").region
        await on.until(lambda: view.region.height > 0 and not view.region.overlaps(keys))
        await on.pilot.press("j")
        assert shown(on, "#jobs-changed") == "Ended: exit code 2, changed: made x"
        assert shown(on, "#jobs-output") == "no output yet"
        await on.pilot.press("s")
        assert on.sent(c.JobStop) == []  # it has ended
        await on.pilot.press("up", "down")
        assert shown(on, "#jobs-output") == "no output yet"
        await on.pilot.press("k", "s")
        await on.until(lambda: on.sent(c.JobStop))
        assert [command.job for command in on.sent(c.JobStop)] == ["job_2"]
        await on.pilot.press("t", "r")
        await on.until(lambda: on.sent(c.JobRestart))
        assert [command.job for command in (*on.sent(c.JobAbsorb), *on.sent(c.JobRestart))] == ["job_2", "job_2"]
        for leave in ("escape", "q"):
            await on.pilot.press(leave)
            await on.until(lambda: on.app.screen is on.screen)
            await on.open_listing("/jobs", "JobsDialog")


async def test_a_job_that_misses_changes_of_the_project_says_so(stage):
    behind = replace(SERVES, missed_count=2, changed=(), changed_count=0)
    async with stage(recorded.opening(), answers={q.JobsQuery: q.JobsAnswer(jobs=(behind,))}) as on:
        await open_jobs(on)
        assert shown(on, "#jobs-changed") == (
            "2 later changes not seen: r restarts it, e after every edit. No changes so far."
        )


SERVER = replace(SERVES, sees_edits=False, restarts_on_edit=True, restart_count=1, changed=(), changed_count=0)
WATCHER = replace(SERVER, id="job_1", restarts_on_edit=False, restart_count=0)


async def test_a_job_that_sees_no_edits_says_what_is_done_about_them_and_a_key_changes_that(stage):
    async with stage(recorded.opening(), answers={q.JobsQuery: q.JobsAnswer(jobs=(SERVER, WATCHER))}) as on:
        await open_jobs(on)
        assert shown(on, "#jobs-changed") == (
            "Restarts after edits, which it can't see while it runs (e: only on r). Restarted once. No changes so far."
        )
        await on.pilot.press("e", "j")
        assert shown(on, "#jobs-changed") == (
            "Can't see edits while it runs: r restarts it, e after every edit. No changes so far."
        )
        await on.pilot.press("e")
        await on.until(lambda: len(on.sent(c.JobRestart)) == 2)
        assert [(command.job, command.when) for command in on.sent(c.JobRestart)] == [
            ("job_2", "never"),
            ("job_1", "edited"),
        ]


async def test_what_a_job_writes_meanwhile_is_shown_and_where_the_user_reads_stays(stage):
    async with stage(recorded.opening(), answers={q.JobsQuery: q.JobsAnswer(jobs=(SERVES,))}) as on:
        dialog = await open_jobs(on)
        view = dialog.query_one(VerticalScroll)
        on.client.answers[q.JobsQuery] = q.JobsAnswer(jobs=(replace(SERVES, output=f"{SERVES.output}\nmore"),))
        await dialog._reload()
        await on.until(lambda: "more" in shown(on, "#jobs-output") and view.scroll_offset.y == view.max_scroll_y)
        await on.pilot.press("pageup")
        at = view.scroll_offset.y
        on.client.answers[q.JobsQuery] = q.JobsAnswer(jobs=(replace(SERVES, output=f"{SERVES.output}\nand more"),))
        await dialog._reload()
        await on.until(lambda: "and more" in shown(on, "#jobs-output"))
        assert view.scroll_offset.y == at


async def queued(on: Any, *texts: str) -> None:
    await on.emit(RUNNING, *(e.TurnSteered(id=f"s{at}", text=text) for at, text in enumerate(texts)))
    await on.open_listing("/queue", "QueueDialog")


def react(client: Any, command: c.AnyCommand) -> c.Reply | None:
    """Give messages back, and end a turn that is stopped."""
    if isinstance(command, c.TurnUnsteer):
        for message_id in command.ids:
            client.emit(e.SteerReturned(id=message_id, text={"s0": "first", "s1": "then\nthat"}[message_id]))
    if isinstance(command, c.TurnInterrupt):
        client.emit(e.TurnFinished(reason="interrupted"))
    return None


@pytest.mark.parametrize(
    ("keys", "id_of", "text"),
    [
        ("je", "s1", "then\nthat"),
        ("jke", "s0", "first"),
        (["down", "enter"], "s1", "then\nthat"),
        (["down", "up", "e"], "s0", "first"),
    ],
)
async def test_a_message_that_waits_is_edited_in_the_prompt(stage, keys, id_of, text):
    async with stage(recorded.opening(), react=react) as on:
        await queued(on, "first", "then\nthat")
        assert [str(option.prompt) for option in on.app.screen.query_one(OptionList).options] == ["first", "then that"]
        await on.pilot.press(*keys)
        await on.until(lambda: on.prompt.text == text)
        assert [command.ids for command in on.sent(c.TurnUnsteer)] == [(id_of,)]


@pytest.mark.parametrize("key", ["d", "delete"])
async def test_a_message_that_is_cancelled_is_gone_and_the_others_stay_listed(stage, key):
    async with stage(recorded.opening(), react=react) as on:
        await queued(on, "first", "then\nthat")
        await on.pilot.press(key)
        await on.until(lambda: isinstance(on.app.screen, QueueDialog) and len(on.screen.state.pending_steers) == 1)
        for leave in ("q", "escape"):
            await on.pilot.press(leave)
            await on.until(lambda: on.app.screen is on.screen)
            await on.open_listing("/queue", "QueueDialog")
        assert on.prompt.text == ""
        assert list(on.screen.state.pending_steers.values()) == ["then\nthat"]


async def test_a_message_that_is_sent_now_stops_the_turn_and_begins_the_next(stage):
    async with stage(recorded.opening(), react=react) as on:
        await queued(on, "first")
        await on.pilot.press("s")
        await on.until(lambda: on.sent(c.TurnSubmit))
        assert [type(command) for command in on.client.commands[-3:]] == [c.TurnUnsteer, c.TurnInterrupt, c.TurnSubmit]
        assert [command.text for command in on.sent(c.TurnSubmit)] == ["first"]
        assert on.prompt.text == ""
