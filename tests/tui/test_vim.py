from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.events import Key, Paste

from core.protocol import commands as c
from core.protocol import events as e
from core.protocol.queries import PromptHistoryAnswer, PromptHistoryQuery, SettingsAnswer, SettingsQuery
from tests.support import recorded
from tui.chat.prompt.vim import VimKeys, clamp

NAMED = {"\x1b": "escape", "\x12": "ctrl+r", " ": "space"}
KEYS = "hjklwWbBeE0^$gGfFtT;,%{}_dcyxXsSDCYpPuiIaAoOJ~rvV./123(\"'`)[]<> \x1b\x12"


class Typist:
    """A text under a hand, without a widget."""

    def __init__(self, text: str, cursor: int = 0) -> None:
        self.vim, self.text, self.cursor = VimKeys(), text, cursor
        self.anchor: int | None = None
        self.before: list[str] = []
        self.vim.mode = "normal"

    def strike(self, keys: str) -> Typist:
        for key in keys:
            if self.vim.mode == "insert" and key != "\x1b":
                self.text = self.text[: self.cursor] + key + self.text[self.cursor :]
                self.cursor += 1
                continue
            reaction = self.vim.press(NAMED.get(key, key), self.text, self.cursor, self.anchor)
            if reaction is not None:
                for edit in reaction.edits:
                    assert 0 <= edit.start <= edit.end <= len(self.text)
                    self.text = self.text[: edit.start] + edit.text + self.text[edit.end :]
                self.cursor, self.anchor = reaction.cursor, reaction.anchor
        return self


@pytest.mark.parametrize(
    ("text", "cursor", "keys", "left"),
    [
        ("foo bar baz", 0, "dw", "bar baz"),
        ("foo bar baz", 0, "d2w", "baz"),
        ("foo bar baz", 0, "2dw", "baz"),
        ("a b c d e f g", 0, "2d3w", "g"),
        ("foo bar", 0, "cwx\x1b", "x bar"),
        ("a b", 0, "cwx\x1b", "x b"),
        ("foo bar baz", 0, "c2wx\x1b", "x baz"),
        ("foo\nbar", 0, "dw", "\nbar"),
        ("foo bar", 0, "de", " bar"),
        ("foo bar", 0, "wdb", "bar"),
        ("foo.bar baz", 0, "dW", "baz"),
        ("foo.bar baz", 10, "dB", "foo.bar z"),
        ("one two", 4, "d0", "two"),
        ("  one two", 6, "d^", "  two"),
        ("one two", 3, "d$", "one"),
        ("one two", 3, "D", "one"),
        ("one two", 4, "Cx\x1b", "one x"),
        ("a,b,c", 0, "f,;x", "a,bc"),
        ("a,b,c", 0, "f,;,x", "ab,c"),
        ("a b, c", 0, "dt,", ", c"),
        ("a b, c", 0, "df,", " c"),
        ("a b, c", 5, "dF,", "a bc"),
        ("a b, c", 5, "dT,", "a b,c"),
        ("x a b", 0, "fz;x", " a b"),
        ("f(a, b) c", 3, "da(", "f c"),
        ("f(a, (b)) c", 3, "dib", "f() c"),
        ("{a: {b}}", 5, "di{", "{a: {}}"),
        ('say "foo" ok', 0, 'ci"x\x1b', 'say "x" ok'),
        ("it's 'x' 'y'", 10, "di'", "it's 'x' ''"),
        ("a foo b", 2, "daw", "a b"),
        ("a foo b", 2, "diw", "a  b"),
        ("a foo.b c", 2, "daW", "a c"),
        ("a b", 2, "daw", "a"),
        ("a\nb\n\nc", 0, "dap", "c"),
        ("(a(b))c", 0, "d%", "c"),
        ("a\nb\nc", 0, "2dd", "c"),
        ("a\nb", 2, "dd", "a"),
        ("a", 0, "dd", ""),
        ("a\nb\nc", 0, "dj", "c"),
        ("a\nb\nc", 4, "dk", "a"),
        ("a\nb\nc", 2, "dG", "a"),
        ("a\nb\nc", 2, "dgg", "c"),
        ("a\nb\n\nc", 0, "d}", "\nc"),
        ("a\nb", 0, "ccx\x1b", "x\nb"),
        ("  a\nb", 0, "Sx\x1b", "x\nb"),
        ("abc", 1, "x", "ac"),
        ("abc", 2, "X", "ac"),
        ("abc", 0, "5x", ""),
        ("ab", 0, "xp", "ba"),
        ("ab", 0, "sx\x1b", "xb"),
        ("a\nb", 0, "yyp", "a\na\nb"),
        ("a\nb", 2, "yyP", "a\nb\nb"),
        ("a\nb", 0, "ddp", "b\na"),
        ("ab cd", 0, "yw$p", "ab cdab "),
        ("ab", 0, "yl3p", "aaaab"),
        ("abc", 1, "rX", "aXc"),
        ("abc", 0, "3rX", "XXX"),
        ("abc", 1, "9rX", "abc"),
        ("ab", 0, "r ", " b"),
        ("abC", 0, "3~", "ABc"),
        ("a\n  b", 0, "J", "a b"),
        ("a\nb\nc", 0, "3J", "a b c"),
        ("a", 0, "ob\x1b", "a\nb"),
        ("a", 0, "Ob\x1b", "b\na"),
        ("  a", 2, "Ib\x1b", "  ba"),
        ("a", 0, "ib\x1b", "ba"),
        ("a", 0, "ab\x1b", "ab"),
        ("", 0, "3iab\x1b", "ababab"),
        ("a", 0, "A!\x1b..", "a!!!"),
        ("axbxc", 0, "dfx.", "c"),
        ("a b c d", 0, "dw2.", "d"),
        ("a b c", 0, "cwx\x1bw.", "x x c"),
        ("foo bar", 0, "vey$p", "foo barfoo"),
        ("foo bar", 0, "wvbd", "ar"),
        ("a\nb\nc", 2, "Vd", "a\nc"),
        ("a\nb\nc", 0, "VjJ", "a b\nc"),
        ("foo bar", 0, "viwcx\x1b", "x bar"),
        ("foo bar", 0, "veU", "FOO bar"),
        ("foo bar", 0, "verx", "xxx bar"),
        ("foo bar", 0, "yiwwviwp", "foo foo"),
        ("abcd", 1, "vlohd", "d"),
        ("foo", 0, "d\x1bx", "oo"),
        ("foo", 0, "3\x1bx", "oo"),
        ("foo", 0, "dzx", "oo"),
    ],
)
def test_keys_do_to_a_text_what_they_do_in_vim(text, cursor, keys, left):
    assert Typist(text, cursor).strike(keys).text == left


@pytest.mark.parametrize(
    ("text", "cursor", "keys", "at"),
    [
        ("foo bar", 0, "w", 4),
        ("foo.bar", 0, "ww", 4),
        ("foo bar", 0, "e", 2),
        ("foo bar", 0, "ee", 6),
        ("foo bar", 6, "b", 4),
        ("foo bar", 0, "$", 6),
        ("  foo", 4, "^", 2),
        ("ab\ncdef\ng", 6, "j", 8),
        ("abcd\ne\nfghi", 3, "jj", 10),
        ("abcd\ne\nfghi", 10, "kk", 3),
        ("a\nb\nc", 0, "G", 4),
        ("a\nb\nc", 4, "gg", 0),
        ("a\nb\nc", 0, "2G", 2),
        ("abc", 2, "l", 2),
        ("abc", 0, "h", 0),
        ("a(b)", 0, "%", 3),
        ("a,b", 0, "t,", 0),
        ("ab,c,", 0, "t,;", 3),
        ("foo bar", 0, "99w", 6),
        ("abc", 3, "x", 2),
    ],
)
def test_a_motion_leads_where_it_does_in_vim(text, cursor, keys, at):
    typist = Typist(text, cursor).strike(keys)
    assert typist.cursor == at


def test_the_mode_and_what_was_begun_are_told():
    typist = Typist("foo")
    titles = []
    for key in "2d\x1bvV\x1bi":
        typist.strike(key)
        titles.append(typist.vim.title)
    assert titles == ["NORMAL 2", "NORMAL 2d", "NORMAL", "VISUAL", "VISUAL LINE", "NORMAL", ""]


def test_a_third_escape_and_keys_of_the_program_are_not_vims():
    typist = Typist("foo")
    assert typist.vim.press("escape", "foo", 0) is None
    assert typist.vim.press("f5", "foo", 0) is None
    assert typist.vim.press("ctrl+p", "foo", 0) is None


def test_at_the_edge_of_the_text_j_and_k_ask_for_other_prompts_and_a_slash_for_the_search():
    vim = VimKeys()
    vim.mode = "normal"
    asked = [vim.press(key, "one\ntwo", cursor).request for key, cursor in (("k", 0), ("j", 0), ("j", 5), ("/", 0))]
    assert asked == ["older", None, "newer", "search"]


@given(st.text("ab \n.,()[]{}\"'x", max_size=40), st.text(KEYS, max_size=60), st.integers(0, 40))
def test_whatever_is_struck_leaves_a_text_and_a_cursor_on_it(text, keys, cursor):
    typist = Typist(text, clamp(text, cursor))
    for key in keys:
        typist.strike(key)
        assert 0 <= typist.cursor <= len(typist.text)
        if typist.vim.mode == "normal":
            assert typist.cursor == clamp(typist.text, typist.cursor)
        assert len(typist.text) < 200_000


# In the prompt

VIM = {SettingsQuery: SettingsAnswer(prompt_keys="vim")}


async def test_the_setting_gives_the_prompt_vims_keys_and_tells_the_mode(stage):
    async with stage(recorded.opening(), answers=VIM) as on:
        await on.until(lambda: on.prompt.vim is not None)
        await on.pilot.press(*"foo bar")
        assert str(on.prompt.border_subtitle) == "INSERT"
        await on.pilot.press("escape", "b", "c", "w")
        assert str(on.prompt.border_subtitle) == "INSERT"
        await on.pilot.press(*"baz", "escape", "0", "d")
        assert (on.prompt.text, str(on.prompt.border_subtitle)) == ("foo baz", "NORMAL d")
        await on.pilot.press("w", "u", "u", "ctrl+r")
        assert on.prompt.text == "foo baz"
        assert on.prompt.has_focus
        await on.pilot.press("enter")
        await on.until(lambda: on.sent(c.TurnSubmit))
        assert str(on.prompt.border_subtitle) == "INSERT"


async def test_ctrl_r_opens_the_review_where_there_is_nothing_to_do_again(stage):
    async with stage(recorded.opening(), answers=VIM) as on:
        await on.until(lambda: on.prompt.vim is not None)
        await on.pilot.press("a", "escape", "ctrl+r")
        await on.until(lambda: on.panes.side is not None)
        assert on.panes.side.current == "review"


async def test_escape_leaves_the_typing_first_and_interrupts_the_turn_then(stage):
    start = e.TurnStarted(prompt="go", mode="agent", model="m")
    async with stage([*recorded.opening(), start], answers=VIM) as on:
        await on.until(lambda: on.prompt.vim is not None)
        await on.pilot.press("escape")
        assert on.sent(c.TurnInterrupt) == []
        await on.pilot.press("escape")
        await on.until(lambda: on.sent(c.TurnInterrupt))


async def test_k_and_j_go_through_the_prompts_of_the_workspace(stage):
    history = PromptHistoryAnswer(prompts=("first", "second"))
    async with stage(recorded.opening(), answers={**VIM, PromptHistoryQuery: history}) as on:
        await on.until(lambda: on.prompt.vim is not None and not on.prompt.past.is_at_oldest)
        await on.pilot.press("escape", "k", "k")
        assert on.prompt.text == "first"
        await on.pilot.press("j", "x")
        assert on.prompt.text == "secon"
        assert on.prompt.suggestion == ""


async def test_a_selection_is_seen_and_changed(stage):
    async with stage(recorded.opening(), answers=VIM) as on:
        await on.until(lambda: on.prompt.vim is not None)
        await on.pilot.press(*"one two", "escape", "v", "b")
        assert on.prompt.selected_text == "two"
        await on.pilot.press("o", "h")
        await on.pilot.press("d")
        assert (on.prompt.text, on.prompt.vim.mode) == ("one o", "normal")


async def test_a_chip_is_one_letter_to_vims_keys(stage):
    async with stage(recorded.opening(), answers=VIM) as on:
        await on.until(lambda: on.prompt.vim is not None)
        on.prompt.post_message(Paste("x\n" * 100))
        await on.until(lambda: on.prompt.text == "[pasted 100 lines #1]")
        await on.pilot.press("escape", "r", "z")
        assert on.prompt.text == "[pasted 100 lines #1]"
        await on.pilot.press("x")
        assert on.prompt.text == ""
        await on.pilot.press("u")
        assert on.prompt.text == "[pasted 100 lines #1]"


async def test_the_command_switches_the_keys(stage):
    async with stage(recorded.opening()) as on:
        for is_on in (True, False):
            await on.pilot.press(*"/vim", "enter")
            await on.until(lambda is_on=is_on: (on.prompt.vim is not None) == is_on)
            assert on.prompt.text == ""


async def test_whatever_is_struck_undo_brings_the_text_back(stage):
    chance, text = random.Random(7), "one two\n  (three) 'four'\n\nfive, six"
    async with stage(recorded.opening()) as on:
        on.prompt.use_keys("vim")
        for _ in range(60):
            on.prompt.set_text(text)
            on.prompt.vim.insert()
            await strike(on.prompt, "escape")
            for key in chance.choices([candidate for candidate in KEYS if candidate not in "u\x12/"], k=25):
                await strike(on.prompt, NAMED.get(key, key), key)
            await strike(on.prompt, "escape")
            await strike(on.prompt, "escape")
            changed = on.prompt.text
            steps = len(on.prompt.history.undo_stack)
            for _ in range(steps):
                await strike(on.prompt, "u", "u")
            assert on.prompt.text == text
            assert on.prompt.wrapped_document.height == text.count("\n") + 1
            for _ in range(steps):
                await strike(on.prompt, "ctrl+r")
            assert on.prompt.text == changed


async def strike(prompt, key, letter=None):
    event = Key(key, letter if letter and letter.isprintable() else None)
    if not prompt._press_vim_key(event) and event.is_printable:
        prompt._replace_via_keyboard(event.character, *prompt.selection)
