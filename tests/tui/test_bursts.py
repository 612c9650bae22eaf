from __future__ import annotations

import sys
from pathlib import Path

import pytest
from textual.content import Content
from textual.events import Key

from benchmarks.terminal import Terminal
from core.protocol import commands as c
from tests.support import recorded
from tui.dialogs.pages import PageDialog

ROOT = Path(__file__).parents[2]


def strike(on, text: str) -> None:
    names = {"\r": "enter", "\n": "ctrl+j", " ": "space"}
    for letter in text:
        on.app.post_message(Key(names.get(letter, letter), letter))


async def test_enter_in_the_same_burst_as_the_text_sends_all_of_it(stage):
    async with stage(recorded.opening()) as on:
        strike(on, "abc\r")
        await on.until(lambda: on.sent(c.TurnSubmit))
        assert on.sent(c.TurnSubmit)[0].text == "abc"
        assert on.prompt.text == ""


async def test_what_is_typed_after_it_was_sent_stays(stage):
    async with stage(recorded.opening()) as on:
        strike(on, "abc\r")
        await on.until(lambda: on.sent(c.TurnSubmit))
        strike(on, "next")
        await on.until(lambda: on.prompt.text == "next")
        assert [command.text for command in on.sent(c.TurnSubmit)] == ["abc"]


@pytest.mark.parametrize("newline", ["\r", "\n", "\r\n", "\r\r"])
async def test_t7_a_newline_inside_a_paste_that_comes_as_keys_does_not_send(stage, newline):
    async with stage(recorded.opening()) as on:
        strike(on, f"line1{newline}line2")
        expected = f"line1{newline}line2".replace("\r\n", "\n").replace("\r", "\n")
        await on.until(lambda: on.prompt.text == expected)
        await on.pilot.pause(0.05)
        assert on.prompt.text == expected
        assert on.sent(c.TurnSubmit) == []


async def test_a_slash_command_in_a_burst_is_carried_out(stage):
    async with stage(recorded.opening()) as on:
        strike(on, "/mode ask\r")
        await on.until(lambda: on.sent(c.ModeSet))
        assert on.sent(c.ModeSet)[0].mode == "ask"


async def test_enter_on_a_completed_command_without_an_argument_runs_it(stage):
    async with stage(recorded.opening()) as on:
        await on.pilot.press("/", "c", "o", "m")
        await on.until(lambda: on.prompt.is_completing)
        await on.pilot.press("enter")
        await on.until(lambda: on.sent(c.ContextCompact))
        assert on.prompt.text == ""


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
@pytest.mark.parametrize("struck", ["one\r", "one\rtwo\r", "one\r\ntwo\r"])
def test_t7_on_a_real_terminal_a_burst_is_sent_once_and_whole(tmp_path, struck):
    sent = tmp_path / "sent"
    with Terminal([sys.executable, "-c", PROGRAM, str(sent)], cwd=tmp_path) as terminal:
        terminal.wait_for("Ask for a change…".encode())
        terminal.write(struck.encode())
        terminal.wait_for(lambda _: sent.exists() and bool(sent.read_text()))
    assert sent.read_text() == struck.replace("\r\n", "\n").replace("\r", "\n").strip()


async def test_a_key_is_by_hand_when_none_came_right_before_it(stage):
    async with stage(recorded.opening()) as on:
        first, second, third = Key("a", "a"), Key("b", "b"), Key("enter", "\r")
        first.time, second.time, third.time = 10.0, 10.001, 11.0
        by_hand_flags = [
            on.app.key_filter.accepts(key) and on.app.key_filter.is_by_hand for key in (first, second, third)
        ]
        assert by_hand_flags[1:] == [False, True]


async def test_a_letter_that_is_held_while_the_app_ends_is_dropped(stage):
    async with stage(recorded.opening()) as on:
        on.screen.context.show(PageDialog("A page", Content("Text")))
        await on.until(lambda: on.app.screen.is_modal)
        on.app.key_filter.accepts(Key("x", "x"))
        assert on.app.key_filter.keystrokes.is_pending
    assert not on.app.screen_stack
    on.app.key_filter._flush()  # as its timer does, if it is due before the app has stopped it


async def test_a_backspace_in_a_burst_acts_between_the_letters_that_it_was_struck_between(stage):
    async with stage(recorded.opening()) as on:
        await on.pilot.press("/", "m")
        await on.until(lambda: on.prompt.is_completing)
        for key in (Key("o", "o"), Key("x", "x"), Key("backspace", "\x7f"), Key("d", "d"), Key("e", "e")):
            on.app.post_message(key)
        await on.until(lambda: on.prompt.text.endswith("de"))
        await on.pilot.pause()
        assert on.prompt.text == "/mode"


async def test_keys_that_move_the_cursor_in_a_burst_keep_their_place_among_the_letters(stage):
    async with stage(recorded.opening()) as on:
        for key in (Key("b", "b"), Key("home", None), Key("a", "a"), Key("end", None), Key("c", "c")):
            on.app.post_message(key)
        await on.until(lambda: len(on.prompt.text) == 3)
        assert on.prompt.text == "abc"
