"""The dialog of the memory: notes that wait are judged by keys of the review, kept ones are edited and forgotten."""

from __future__ import annotations

import pytest
from textual.widgets import Input, OptionList, Static

from core.protocol import commands as c
from core.protocol.queries import IdleAnswer, IdleQuery, MemoryAnswer, MemoryNote, MemoryQuery
from tests.support import recorded
from tui.widgets.key_hints import KeyHints

KEPT = MemoryNote(id="k", text="We say colour.", at=1_700_000_000_000, is_kept=True)
WAITING = MemoryNote(id="w", text="Tests need a database.", why="they failed without one", at=1_763_000_000_000)
OTHER = MemoryNote(id="x", text="Run make lint.", at=1_763_100_000_000)
ANSWERS = {MemoryQuery: MemoryAnswer(notes=(KEPT, WAITING, OTHER)), IdleQuery: IdleAnswer(seq=1)}


def said(on, name):
    return str(on.app.screen.query_one(f"#listing-{name}", Static).content)


def rows(on):
    options = on.app.screen.query_one(OptionList)
    return [str(options.get_option_at_index(index).prompt) for index in range(options.option_count)]


def verdicts(on):
    return [(command.id, command.verdict, command.text) for command in on.sent(c.MemoryJudge)]


async def test_what_waits_comes_first_with_the_reason_for_it(stage):
    async with stage(recorded.opening(), answers=ANSWERS) as on:
        await on.open_listing("/memory", "MemoryDialog")
        assert rows(on) == ["? Tests need a database.", "? Run make lint.", "✓ We say colour."]
        assert said(on, "sum") == "2 pending · 1 note saved"
        assert said(on, "reason").endswith(": they failed without one")
        assert said(on, "reason").startswith("Proposed 2025-11-")
        await on.pilot.press("down", "down")
        await on.until(lambda: said(on, "reason").startswith("Saved 2023-11-"))


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["a"], [("w", "accept", "")]),
        (["j", "a"], [("x", "accept", "")]),
        (["A"], [("w", "accept", ""), ("x", "accept", "")]),
        (["r"], [("w", "reject", "")]),
        (["d"], [("w", "reject", "")]),
        (["delete"], [("w", "reject", "")]),
        (["k", "r", "r"], [("k", "reject", "")]),
        (["up", "r", "d"], [("k", "reject", "")]),
    ],
)
async def test_a_note_is_judged_by_a_key(stage, keys, expected):
    async with stage(recorded.opening(), answers=ANSWERS) as on:
        await on.open_listing("/memory", "MemoryDialog")
        for key in keys:
            await on.pilot.press(key)
            await on.pilot.pause()
        await on.until(lambda: verdicts(on) == expected)


async def test_a_kept_note_is_forgotten_by_a_second_stroke_on_the_same_row_alone(stage):
    async with stage(recorded.opening(), answers=ANSWERS) as on:
        await on.open_listing("/memory", "MemoryDialog")
        await on.pilot.press("k", "r")
        await on.until(lambda: said(on, "reason") == "r again to remove it.")
        await on.pilot.press("a", "j", "k", "r")
        await on.pilot.pause()
        assert said(on, "reason") == "r again to remove it."
        assert verdicts(on) == []


@pytest.mark.parametrize("key", ["e", "enter"])
async def test_the_words_of_a_note_are_changed_in_place(stage, key):
    async with stage(recorded.opening(), answers=ANSWERS) as on:
        await on.open_listing("/memory", "MemoryDialog")
        await on.pilot.press(key)
        line = on.app.screen.query_one(Input)
        assert (line.display, line.value) == (True, WAITING.text)
        await on.pilot.press("escape")
        assert not line.display
        await on.pilot.press(key, *(["backspace"] * len("database.")), *"queue", "enter")
        await on.until(lambda: verdicts(on) == [("w", "accept", "Tests need a queue")])


async def test_where_there_are_none_it_says_how_to_keep_one(stage):
    async with stage(recorded.opening(), answers={MemoryQuery: MemoryAnswer(notes=())}) as on:
        await on.open_listing("/memory", "MemoryDialog")
        await on.pilot.press("a", "A", "r", "e", "j")
        assert "Add one with /memory TEXT" in said(on, "reason")
        assert not on.app.screen.query_one("#listing-sum").display
        assert on.app.screen.query_one(KeyHints).render().plain.strip() == "esc back", (
            "no key that has nothing to act on"
        )


async def test_words_behind_the_command_are_kept(stage):
    async with stage(recorded.opening()) as on:
        on.prompt.text = "/memory We say colour."
        on.prompt.action_send()
        await on.until(lambda: on.sent(c.MemoryAdd))
        assert on.sent(c.MemoryAdd)[0].text == "We say colour."


@pytest.mark.parametrize("key", ["escape", "q"])
async def test_the_dialog_is_left_by_a_key(stage, key):
    async with stage(recorded.opening(), answers=ANSWERS) as on:
        await on.open_listing("/memory", "MemoryDialog")
        await on.pilot.press(key)
        await on.until(lambda: on.app.screen is on.screen)
        assert on.prompt.has_focus
