from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from textual.events import Paste

from benchmarks.terminal import Terminal
from core.protocol import commands as c
from tests.support import recorded
from tui.chat.prompt.editor import MAX_UNFOLDED, PastedTexts, cuts_chip
from tui.screens.controllers.prompt import parse_note
from tui.search.key_help import KeyHelpDialog

ROOT = Path(__file__).parents[2]
LOG = "\n".join(f"line {number}" for number in range(120))


@pytest.mark.parametrize(
    ("keys", "text", "cursor"),
    [
        (["alt+left"], "one two.py", 8),
        (["alt+b", "alt+b"], "one two.py", 7),
        (["ctrl+left", "ctrl+left", "ctrl+left"], "one two.py", 4),
        (["home", "alt+right"], "one two.py", 3),
        (["home", "alt+f", "alt+f"], "one two.py", 7),
        (["home", "ctrl+right"], "one two.py", 3),
        (["alt+backspace"], "one two.", 8),
        (["ctrl+w"], "one two.", 8),
        (["ctrl+backspace"], "one two.", 8),
        (["home", "alt+d"], " two.py", 0),
        (["home", "alt+delete"], " two.py", 0),
        (["ctrl+w", "ctrl+z"], "one two.py", 10),
        (["ctrl+w", "ctrl+z", "ctrl+y"], "one two.", 8),
    ],
)
async def test_words_are_gone_through_and_erased_and_that_is_taken_back(stage, keys, text, cursor):
    async with stage(recorded.opening()) as on:
        on.prompt.set_text("one two.py")
        await on.pilot.press(*keys)
        assert (on.prompt.text, on.prompt.cursor_location) == (text, (0, cursor))


PROGRAM = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from core.protocol.commands import TurnSubmit
from tests.support.scripted_client import ScriptedClient
from tui.app import AgentApp
from tui.bridge import SessionRequest

def react(client, command):
    if isinstance(command, TurnSubmit):
        Path(sys.argv[1]).write_text(command.text)

async def connect():
    return ScriptedClient(react=react)

AgentApp(connect, SessionRequest(model="m")).run()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("struck", "text"),
    [
        (["one two three", "\x1b\x7f", "four"], "one two four"),
        (["one two", "\x1bb", "\x1bb", "zero "], "zero one two"),
        (["one two", "\x1b[1;3D", "x"], "one xtwo"),
        (["one two", "\x1bb", "\x1bb", "\x1bd", "1"], "1 two"),
    ],
)
def test_alt_with_a_key_comes_as_terminals_send_it(tmp_path, struck, text):
    sent = tmp_path / "sent"
    with Terminal([sys.executable, "-c", PROGRAM, str(sent)], cwd=tmp_path) as terminal:
        terminal.wait_for("Ask for a change…".encode())
        for keys in struck:
            terminal.write(keys.encode())
        terminal.write(b"\r")
        terminal.wait_for(lambda _: sent.exists() and bool(sent.read_text()))
    assert sent.read_text() == text


async def test_enter_behind_a_backslash_begins_a_new_line_and_behind_two_it_sends(stage):
    async with stage(recorded.opening()) as on:
        await on.pilot.press(*"one\\", "enter", *"two")
        assert (on.prompt.text, on.sent(c.TurnSubmit)) == ("one\ntwo", [])
        await on.pilot.press(*"\\\\", "enter")
        await on.until(lambda: on.sent(c.TurnSubmit))
        assert on.sent(c.TurnSubmit)[0].text == "one\ntwo\\\\"


async def test_a_command_for_the_shell_keeps_the_backslash_that_goes_on(stage):
    async with stage(recorded.opening()) as on:
        await on.pilot.press(*"!ls \\", "enter", *"-l")
        assert on.prompt.text == "!ls \\\n-l"


# Pastes


async def test_a_chip_is_unfolded_by_its_key_and_erased_as_a_whole(stage):
    async with stage(recorded.opening()) as on:
        on.prompt.post_message(Paste(LOG))
        await on.until(lambda: on.prompt.text == "[pasted 120 lines #1]")
        await on.pilot.press("alt+x")
        assert on.prompt.text == LOG
        await on.pilot.press("ctrl+z")
        assert on.prompt.text == "[pasted 120 lines #1]"
        await on.pilot.press("end", "alt+backspace")
        assert on.prompt.text == ""
        await on.pilot.press("ctrl+z", "home", "alt+d")
        assert on.prompt.text == ""
        await on.pilot.press("ctrl+z", "end", *" why", "enter")
        await on.until(lambda: on.sent(c.TurnSubmit))
        assert on.sent(c.TurnSubmit)[0].text == f"{LOG} why"
        assert on.sent(c.TurnSubmit)[0].pasted == ((0, len(LOG)),)


async def test_what_is_too_long_to_be_edited_stays_a_chip(stage):
    async with stage(recorded.opening()) as on:
        on.prompt.post_message(Paste("x" * (MAX_UNFOLDED + 1)))
        await on.until(lambda: on.prompt.text == "[pasted 100 kB #1]")
        await on.pilot.press("alt+x")
        assert on.prompt.text == "[pasted 100 kB #1]"
        assert "Too long" in next(iter(on.app._notifications)).message


def test_the_chip_at_the_cursor_is_unfolded_else_the_last_one():
    pastes = PastedTexts()
    first, second = pastes.fold("a" * 5_000), pastes.fold("b" * 5_000)
    line = f"{first} and {second}"
    assert pastes.find_at(line, 3) == ((0, len(first)), "a" * 5_000)
    assert pastes.find_at(line, len(first) + 2) == ((len(first) + 5, len(line)), "b" * 5_000)
    assert pastes.find_at("[pasted 5.0 kB #7]", 0) is None


def test_an_edit_that_cuts_a_chip_is_widened_to_all_of_it():
    text = "see [pasted 5.0 kB #1] now"
    assert cuts_chip(text, 0, 6) == (0, 22)
    assert cuts_chip(text, 4, 22) is None
    assert cuts_chip(text, 22, 26) is None


# Help and notes


async def test_a_question_mark_alone_shows_help_and_one_that_begins_a_prompt_does_not(stage, monkeypatch):
    monkeypatch.setattr("tui.chat.prompt.HELP_WAIT", 0.01)
    async with stage(recorded.opening()) as on:
        await on.pilot.press("?")
        await on.until(lambda: isinstance(on.app.screen, KeyHelpDialog))
        await on.pilot.press("escape")
        await on.until(lambda: on.app.screen is on.screen)
        assert on.prompt.text == ""
    monkeypatch.setattr("tui.chat.prompt.HELP_WAIT", 3_600)
    async with stage(recorded.opening()) as on:
        await on.pilot.press(*"?why")
        on.prompt._ask_for_help()
        await on.pilot.pause()
        assert (on.prompt.text, on.app.screen) == ("?why", on.screen)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("# We say colour.", "We say colour."),
        ("#tests run with make", "tests run with make"),
        ("#", ""),
        ("#12 is still open", ""),
        ("## Title", ""),
        ("# Title\n\ntext", ""),
        ("#!/bin/sh", ""),
        (" see # x", ""),
    ],
)
def test_a_line_that_begins_with_a_hash_is_a_note(text, note):
    assert parse_note(text) == note


async def test_a_note_is_kept_and_no_model_hears_of_it(stage):
    async with stage(recorded.opening()) as on:
        await on.pilot.press(*"# We say colour.", "enter")
        await on.until(lambda: on.sent(c.MemoryAdd))
        assert on.sent(c.MemoryAdd)[0].text == "We say colour."
        await on.until(lambda: on.app._notifications)
        assert re.match("Saved for later sessions", next(iter(on.app._notifications)).message)
        assert (on.sent(c.TurnSubmit), on.prompt.text) == ([], "")


async def test_a_text_that_was_longer_than_the_prompt_is_taken_back_and_put_there_again(stage):
    text = "\n".join(f"line {number}" for number in range(60))
    async with stage(recorded.opening()) as on:
        on.prompt.post_message(Paste(text))
        await on.until(lambda: on.prompt.text == text)
        await on.pilot.press("ctrl+z")
        assert (on.prompt.text, on.prompt.cursor_location, on.prompt.size.height) == ("", (0, 0), 1)
        await on.pilot.press("ctrl+y")
        assert (on.prompt.text, on.prompt.cursor_location) == (text, (59, 7))


async def test_a_theme_that_changes_while_text_stands_in_the_prompt_colours_it(stage):
    async with stage() as on:
        await on.all_shown()
        await on.pilot.press("a", "b")
        for theme in ("textual-light", "textual-dark", "textual-light"):
            on.app.theme = theme
            await on.pilot.pause()
            rows = on.prompt.render_lines(on.prompt.outer_size.region)
            letters = [segment.style for row in rows for segment in row if "ab" in segment.text]
            expected_style = on.prompt.rich_style
            assert [(letter_style.color, letter_style.bgcolor) for letter_style in letters] == [
                (expected_style.color, expected_style.bgcolor)
            ]
