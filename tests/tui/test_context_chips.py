"""The chips above the prompt: what goes with it, and leaving some of it out."""

from __future__ import annotations

import pytest

from core.protocol import commands as c
from core.protocol.queries import ContextItem, ContextProblem, PromptContextAnswer, PromptContextQuery
from tests.support import recorded
from tui.chat.context_chips import ContextChips

ADD = ContextItem(
    key="symbol:utils.ts:add", kind="symbol", label="add · utils.ts:3-5", path="utils.ts", start=3,
    end=5, origin="found",
    reason="named in the prompt, and defined only here",
)  # fmt: skip
UTILS = ContextItem(key="file:utils.ts", kind="file", label="utils.ts", path="utils.ts", reason="named in the prompt")
MANY = tuple(
    ContextItem(key=f"file:{n}", kind="file", label=f"source/part{n}/module.py", path=f"{n}", reason=f"reason {n}")
    for n in range(9)
)
WRONG = ContextProblem(
    key="@nope.py", message="@nope.py: there is no file with this name.", hint="Did you mean @nose.py?"
)


def found(*items, problems=()):
    return {PromptContextQuery: PromptContextAnswer(items=items, problems=problems)}


async def write(on, text, count=1):
    await on.pilot.press(*[{" ": "space", ".": "full_stop"}.get(character, character) for character in text])
    # Until it has been laid out: a row without a width shows nothing.
    await on.until(lambda: row(on) is not None and row(on).size.width and len(row(on).keys) == count)


def list_asked(on):
    return [query.text for query in on.client.queries if isinstance(query, PromptContextQuery)]


def row(on):
    return next(iter(on.app.screen.query(ContextChips)), None)


def lines(on):
    return str(row(on).render())


async def test_what_goes_with_a_prompt_is_shown_above_it(stage):
    async with stage(recorded.opening(), answers=found(UTILS, ADD)) as on:
        await write(on, "fix add in utils.ts", 2)
        await on.until(lambda: list_asked(on)[-1] == "fix add in utils.ts")
        assert "utils.ts ✕" in lines(on)
        assert "add · utils.ts:3-5 ✕" in lines(on)
        assert row(on).region.bottom <= on.prompt.region.y
        assert row(on).region.height == 1
        assert on.prompt.has_focus


@pytest.mark.parametrize("remove", ["delete", "backspace"])
async def test_a_chip_is_removed_by_keys_and_sent_as_excluded(stage, remove):
    async with stage(recorded.opening(), answers=found(UTILS, ADD)) as on:
        await write(on, "fix add in utils.ts", 2)
        await on.pilot.press("alt+up")
        assert row(on).has_focus
        assert "named in the prompt" in lines(on)
        await on.pilot.press("right", "left", "left", "right", remove)
        await on.until(lambda: row(on).keys == (UTILS.key,))
        await on.pilot.press("escape")
        assert on.prompt.has_focus
        await on.pilot.press("enter")
        await on.until(lambda: on.sent(c.TurnSubmit))
        assert on.sent(c.TurnSubmit)[0].excluded == (ADD.key,)
        assert not row(on).display


@pytest.mark.parametrize("key", ["escape", "enter", "down", "tab", "alt+down"])
async def test_every_key_that_leaves_the_row_goes_back_to_the_prompt(stage, key):
    async with stage(recorded.opening(), answers=found(UTILS)) as on:
        await write(on, "utils.ts")
        await on.pilot.press("f12", key)
        assert on.prompt.has_focus
        assert on.sent(c.TurnSubmit) == []


async def test_a_letter_on_the_row_goes_on_in_the_prompt(stage):
    async with stage(recorded.opening(), answers=found(UTILS)) as on:
        await write(on, "utils.ts")
        await on.pilot.press("alt+up", "x", "y")
        assert on.prompt.has_focus
        assert on.prompt.text == "utils.tsxy"


async def test_behind_the_last_chip_the_prompt_has_the_focus_and_the_row_is_gone(stage):
    async with stage(recorded.opening(), answers=found(UTILS)) as on:
        await write(on, "utils.ts")
        await on.pilot.press("alt+up", "delete")
        await on.until(lambda: on.prompt.has_focus)
        assert not row(on).display


async def test_a_click_on_the_cross_removes_the_chip(stage):
    async with stage(recorded.opening(), answers=found(UTILS, ADD)) as on:
        await write(on, "fix add in utils.ts", 2)
        await on.pilot.click(ContextChips, offset=(4, 0))
        assert len(row(on).keys) == 2
        await on.pilot.click(ContextChips, offset=(2 + len(" utils.ts ✕") - 1, 0))
        await on.until(lambda: row(on).keys == (ADD.key,))


async def test_an_emptied_prompt_has_no_chips_and_forgets_what_was_removed(stage):
    async with stage(recorded.opening(), answers=found(UTILS)) as on:
        await write(on, "utils.ts")
        await on.pilot.press("alt+up", "delete", "ctrl+c")
        await on.until(lambda: not on.prompt.text)
        await write(on, "utils.ts")
        assert row(on).keys == (UTILS.key,)


async def test_a_mention_of_nothing_is_a_chip_that_can_be_removed_to_send_it_as_text(stage):
    async with stage(recorded.opening(), answers=found(problems=(WRONG,))) as on:
        await write(on, "see nope")
        assert "? @nope.py ✕" in lines(on)
        await on.pilot.press("alt+up")
        assert "? @nope.py ✕   there is no file with this name. Did you mean @nose.py?" in lines(on)
        await on.pilot.press("delete", "enter")
        await on.until(lambda: on.sent(c.TurnSubmit))
        assert on.sent(c.TurnSubmit)[0].excluded == ("@nope.py",)


async def test_a_refused_prompt_stands_in_the_editor_again(stage):
    def refuse(_, command):
        if isinstance(command, c.TurnSubmit):
            return c.Reject(code="mention_unknown", message=WRONG.message, hint=WRONG.hint)
        return None

    async with stage(recorded.opening(), react=refuse) as on:
        await on.pilot.press(*"see", "enter")
        await on.until(lambda: on.sent(c.TurnSubmit))
        await on.until(lambda: on.prompt.text)
        assert on.prompt.text == "see"


async def test_no_chips_for_commands(stage):
    async with stage(recorded.opening(), answers=found(UTILS)) as on:
        await on.pilot.press("exclamation_mark", *"ls")
        await on.pilot.pause(0.3)
        assert [query for query in on.client.queries if isinstance(query, PromptContextQuery)] == []


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40)])
async def test_what_does_not_fit_is_counted_and_comes_into_view_with_the_cursor(stage, size):
    async with stage(recorded.opening(), answers=found(*MANY), size=size) as on:
        await write(on, "x", len(MANY))
        assert f"+{len(MANY) - lines(on).count('✕')}" in lines(on)
        assert len(lines(on)) <= size[0]
        await on.pilot.press("alt+up", *["right"] * 8)
        assert "part8" in lines(on)
        await on.pilot.press(*["left"] * 8)
        assert "part0" in lines(on)
        assert row(on).region.height == 1


async def test_the_same_chips_again_draw_nothing(stage):
    async with stage(recorded.opening(), answers=found(UTILS)) as on:
        await write(on, "utils.ts")
        drawn = []
        row(on).refresh = lambda *_, **__: drawn.append(1)
        row(on).show([UTILS], [])
        assert drawn == []


async def test_what_was_pasted_is_sent_with_its_place(stage):
    from textual.events import Paste

    async with stage(recorded.opening()) as on:
        await on.pilot.press(*"ab")
        on.prompt.post_message(Paste("@x\n" * 100))
        await on.until(lambda: "pasted" in on.prompt.text)
        await on.pilot.press("enter")
        await on.until(lambda: on.sent(c.TurnSubmit))
        [sent] = on.sent(c.TurnSubmit)
        [(start, end)] = sent.pasted
        assert sent.text[start:end] == "@x\n" * 100


@pytest.mark.parametrize(("width", "count"), [(120, 0), (80, 0), (60, 2)])
async def test_labels_are_cut_so_that_more_chips_are_in_view(stage, width, count):
    paths = ("django/contrib/admin/options.py", "django/db/models/query.py · outline", "django/forms/models.py")
    items = [ContextItem(key=path, kind="file", label=path, path=path, reason="") for path in paths]
    async with stage(recorded.opening(), answers=found(*items), size=(width, 16)) as on:
        await write(on, "see them", count=3)
        screen_text = lines(on)
        whole = [path for path in paths if path[:8] in screen_text and f"{path[-8:]} ✕" in screen_text]
        assert whole == list(paths[: 3 - count])
        assert (f"+{count}" in screen_text) == bool(count)


@pytest.mark.parametrize(
    ("typed", "mention"),
    [
        ("/fetch https://a.example/x", "@https://a.example/x "),
        ("/fetch a.example/x", "@https://a.example/x "),
        ("/fetch", ""),
    ],
)
async def test_fetch_puts_the_mention_of_a_page_into_the_prompt(stage, typed, mention):
    async with stage(recorded.opening()) as on:
        on.prompt.set_text(typed)
        await on.pilot.press("escape", "enter")
        await on.until(lambda: on.prompt.text == mention)
        assert not [command for command in on.client.commands if isinstance(command, c.TurnSubmit)]
