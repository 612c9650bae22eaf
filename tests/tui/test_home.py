"""The list at the start, the dialog of all sessions with its search, and what is done with a session there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from textual.widgets import Input, OptionList

from core.protocol import commands as c
from core.protocol import documents as d
from core.protocol import events as e
from core.protocol import queries as q
from tests.support.scripted_client import SESSION
from tests.tui.panes_case import NOW
from tui.bridge import SessionRequest
from tui.dialogs.pages import ConfirmDialog
from tui.screens.controllers.sessions import parse_export
from tui.sessions.home import HomeList
from tui.sessions.picker import SessionPicker, parse_tags

WAITS = q.SessionInfo(
    id="ses_waits",
    title="Exact prices",
    started=0,
    updated=NOW,
    model="m",
    mode="agent",
    turns=4,
    pending=3,
    branch="topic",
)
PLAIN = replace(WAITS, id="ses_plain", title="Why is it slow?", pending=0, tags=("perf",))
RUNS = replace(PLAIN, id="ses_open", title="Runs elsewhere", locked=True, running=True, tags=())
PRINTED = replace(PLAIN, id="ses_run", title="A run of -p", unattended=True, tags=())
MINE = q.SessionInfo(id=SESSION, title="", started=0, updated=NOW, model="m", mode="agent", branch="main")
LISTED = q.SessionsAnswer(sessions=(MINE, WAITS, RUNS, PLAIN, PRINTED))
HIT = q.TranscriptHit(
    session="ses_run",
    title="A run of -p",
    kind="answer",
    place="doc_7",
    seq=9,
    at=NOW,
    text="it retries here",
    marks=((3, 10),),
)
FOUND = q.TranscriptSearchAnswer(hits=(HIT,))
ANSWERS = {q.SessionsQuery: LISTED, q.TranscriptSearchQuery: FOUND, q.IdleQuery: q.IdleAnswer(seq=1)}


def react(client: Any, command: c.AnyCommand) -> c.Reply | None:
    """Resume, and change sessions that are open nowhere."""
    command_types = (
        c.SessionRename | c.SessionTag | c.SessionDelete | c.SessionExport | c.SessionResume | c.SessionClose
    )
    return (
        c.Ack(session=command.session, seq=len(client.log))
        if isinstance(command, command_types) and command.session
        else None
    )


def rows(widget: OptionList) -> list[str]:
    return [str(option.prompt).strip() for option in widget.options]


async def home_of(on: Any) -> HomeList:
    await on.until(lambda: on.screen.query(HomeList) and on.screen.query_one(HomeList).has_class("-filled"))
    await on.pilot.pause()
    return on.screen.query_one(HomeList)


async def picker_of(on: Any) -> SessionPicker:
    await on.until(lambda: isinstance(on.app.screen, SessionPicker) and on.app.screen.query(Input))
    await on.pilot.pause()
    return on.app.screen


async def test_a_start_shows_what_is_open_what_waits_and_the_latest(stage):
    async with stage(answers=ANSWERS) as on:
        home = await home_of(on)
        texts = rows(home)
        assert texts[0] == "shop · main · scripted/demo"
        assert [text for text in texts if text in {"Open elsewhere", "Needs you", "Recent"}] == [
            "Open elsewhere",
            "Needs you",
            "Recent",
        ]
        assert any(text.startswith("Exact prices") and "3 to review · topic" in text for text in texts)
        assert any("#perf" in text for text in texts)
        assert texts[-1] == "1 run of -p…"
        assert on.prompt.has_focus


async def test_what_is_typed_at_once_is_a_prompt_and_the_list_goes_with_it(stage):
    async with stage(answers=ANSWERS) as on:
        home = await home_of(on)
        await on.pilot.press(*"rename d")
        assert on.prompt.text == "rename d"
        assert on.sent(c.SessionRename) == []
        await on.emit(e.TurnStarted(prompt="rename d", mode="agent", model="m"))
        assert not home.display or not home.region


async def test_down_goes_to_the_list_and_beyond_its_ends_back_to_the_prompt(stage):
    async with stage(answers=ANSWERS) as on:
        home = await home_of(on)
        await on.pilot.press("down")
        assert home.has_focus
        assert str(on.prompt.placeholder).startswith("enter open   r rename   t tag")
        assert "/ search" in str(on.prompt.placeholder)
        assert home.highlighted_option.id == "ses_waits"
        await on.pilot.press("j")
        assert home.highlighted_option.id == "ses_plain"
        await on.pilot.press("k", "up")
        await on.pilot.pause()
        assert on.prompt.has_focus
        for key in ("n", "escape"):
            await on.pilot.press("down")
            assert home.has_focus
            await on.pilot.press(key)
            await on.pilot.pause()
            assert (on.prompt.has_focus, on.prompt.text) == (True, "")


async def test_enter_opens_the_session_and_its_row_of_runs_the_whole_list(stage):
    async with stage(answers=ANSWERS, react=react) as on:
        await home_of(on)
        await on.pilot.press("down", "enter")
        await on.until(lambda: on.sent(c.SessionResume))
        assert [command.session for command in on.sent(c.SessionResume)] == ["ses_waits"]
    async with stage(answers=ANSWERS) as on:
        await home_of(on)
        await on.pilot.press("down", "down", "down", "enter")
        await picker_of(on)


@pytest.mark.parametrize(("key", "placeholder"), [("r", "New title"), ("t", "Tags"), ("slash", "Search")])
async def test_keys_of_the_list_open_the_dialog_at_what_they_do(stage, key, placeholder):
    async with stage(answers=ANSWERS) as on:
        await home_of(on)
        await on.pilot.press("down", key)
        dialog = await picker_of(on)
        assert dialog.query_one(Input).placeholder.startswith(placeholder)


@pytest.mark.parametrize("key", ["d", "delete"])
async def test_a_deletion_from_the_list_is_asked_about_first(stage, key):
    async with stage(answers=ANSWERS, react=react) as on:
        await home_of(on)
        await on.pilot.press("down", key)
        await on.asked()
        assert "You would lose 3 to review" in str(on.app.screen.query_one(".dialog-about").render())
        await on.pilot.press("y")
        await on.until(lambda: on.sent(c.SessionDelete))
        assert on.sent(c.SessionDelete) == [c.SessionDelete(session="ses_waits", confirmed=True)]


async def test_an_export_from_the_list_is_one_page_of_the_sessions_name(stage):
    async with stage(answers=ANSWERS, react=react) as on:
        await home_of(on)
        await on.pilot.press("down", "e")
        await on.until(lambda: on.sent(c.SessionExport))
        assert on.sent(c.SessionExport) == [
            c.SessionExport(session="ses_waits", path="exact-prices.html", format="html")
        ]


async def test_the_dialog_renames_and_tags_and_its_search_goes_on(stage):
    async with stage(answers=ANSWERS, react=react) as on:
        await home_of(on)
        await on.pilot.press("down", "slash")
        dialog = await picker_of(on)
        await on.pilot.press(*"exact", "f2")
        line = dialog.query_one(Input)
        assert line.value == "Exact prices"
        await on.pilot.press(*" now", "enter")
        await on.until(lambda: on.sent(c.SessionRename))
        assert on.sent(c.SessionRename) == [c.SessionRename(session="ses_waits", title="Exact prices now")]
        assert line.value == "exact"
        await on.pilot.press("ctrl+t", *"api, later", "enter")
        await on.until(lambda: on.sent(c.SessionTag))
        assert on.sent(c.SessionTag) == [c.SessionTag(session="ses_waits", tags=("api", "later"))]
        await on.pilot.press("ctrl+t", "escape")
        assert isinstance(on.app.screen, SessionPicker)  # escape left the tags, not the dialog
        await on.pilot.press("ctrl+d")
        await on.until(lambda: isinstance(on.app.screen, ConfirmDialog))
        await on.pilot.press("escape")
        await on.pilot.press("ctrl+e")
        await on.until(lambda: on.sent(c.SessionExport))
        assert on.sent(c.SessionDelete) == []


@pytest.mark.parametrize("cost", [0.0, 100.0], ids=["a fast machine", "a slow one"])
async def test_what_was_said_is_found_and_opens_at_its_place(stage, cost):
    log = [
        e.SessionStarted(workspace="shop", mode="agent", model="m"),
        *(
            e.DocumentFinished(document=d.TextDocument(id=f"doc_{at}", sequence=at, content="word\n\n" * 9))
            for at in range(12)
        ),
    ]
    async with stage(log, answers=ANSWERS, react=react, wish=SessionRequest(resume="")) as on:
        await on.all_shown()
        on.screen.controllers.sessions.action_choose_session()
        dialog = await picker_of(on)
        await on.pilot.press(*"retr")
        choices = dialog.query_one(OptionList)
        await on.until(lambda: any("it retries here" in row for row in rows(choices)))
        asked = [query for query in on.client.queries if isinstance(query, q.TranscriptSearchQuery)]
        assert (asked[-1].words, asked[-1].typed) == ("retr", True)
        on.screen.bridge.batches.cost = cost
        await on.pilot.press("enter")
        await on.until(lambda: on.sent(c.SessionResume)[-1].session == "ses_run")
        on.client.emit(e.SessionClosed())  # the stream of the session before ends
        await on.until(lambda: on.transcript.has_focus)
        assert on.sent(c.SessionResume)[-1].session == "ses_run"
        assert on.screen.state.blocks[on.transcript.cursor].key == "doc_7"
        await on.until(lambda: on.transcript.scroll_offset.y > 0)


async def test_logs_that_are_read_for_the_first_time_bring_more_hits_as_they_are(stage, monkeypatch):
    unread_counts, goes_on = [7, 3, 0], asyncio.Event()

    async def search(words: str) -> q.TranscriptSearchAnswer:
        if len(unread_counts) == 2:
            await goes_on.wait()
        unread = unread_counts.pop(0)
        return q.TranscriptSearchAnswer(hits=() if unread else (HIT,), unread=unread)

    async with stage(answers=ANSWERS) as on:
        await home_of(on)
        monkeypatch.setattr(on.screen.controllers.sessions, "search", search)
        await on.pilot.press("down", "slash")
        dialog = await picker_of(on)
        await on.pilot.press(*"retr")
        none = dialog.query_one(".sessions--none")
        await on.until(lambda: "Reading 7 conversations" in str(none.render()))
        goes_on.set()
        await on.until(lambda: any("it retries here" in row for row in rows(dialog.query_one(OptionList))))
        assert unread_counts == []


async def test_a_project_without_sessions_and_a_session_with_a_prompt_show_no_list(stage):
    async with stage(answers={q.SessionsQuery: q.SessionsAnswer(sessions=(MINE,))}) as on:
        await on.until(lambda: any(isinstance(query, q.SessionsQuery) for query in on.client.queries))
        await on.pilot.pause()
        assert not on.screen.query(HomeList)
        await on.pilot.press("down")
        assert on.prompt.has_focus


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("", ("md", "")),
        ("html", ("html", "")),
        ("json a b.json", ("json", "a b.json")),
        ("talk.html", ("html", "talk.html")),
        ("notes", ("md", "notes")),
    ],
)
def test_an_export_takes_a_format_and_a_file(words, found):
    assert parse_export(words) == found


async def test_commands_label_and_export_the_session_of_the_window(stage):
    async with stage(answers=ANSWERS, react=react) as on:
        await home_of(on)
        for text in ("/rename The b file", "/tag #api later", "/export html", "/tree"):
            on.prompt.text = text
            on.prompt.action_send()
            await on.pilot.pause(0.05)
        await on.until(lambda: on.sent(c.SessionExport))
        assert [command.title for command in on.sent(c.SessionRename)] == ["The b file"]
        assert [command.tags for command in on.sent(c.SessionTag)] == [("api", "later")]
        assert [(command.path, command.format) for command in on.sent(c.SessionExport)] == [("session.html", "html")]


def test_tags_are_words_each_once():
    assert parse_tags("#api, later api") == ("api", "later")


async def test_the_list_at_the_start_waits_for_the_log_that_its_heading_is_taken_from(stage):
    async with stage() as on:
        on.screen.bridge.caught_up.clear()
        showing = asyncio.create_task(on.screen.controllers.sessions.show_home(LISTED.sessions))
        await on.pilot.pause()
        assert not on.screen.query(HomeList)
        on.screen.bridge.caught_up.set()
        await showing
        await on.until(lambda: on.screen.query_one(HomeList).has_class("-filled"))
        assert on.screen.query_one(HomeList)._place == "shop · main · scripted/demo"


def test_the_start_looks_as_it_did(looks):
    assert looks((), answers=ANSWERS)


def test_the_start_looks_as_it_did_in_a_small_window(looks):
    assert looks((), (80, 24), answers=ANSWERS, keys=("down",))
