from __future__ import annotations

import asyncio

import pytest
from textual import events

from core.protocol import commands as c
from core.protocol.queries import (
    AnyAnswer,
    AnyQuery,
    Completion,
    CompletionAnswer,
    CompletionQuery,
    PromptHistoryAnswer,
    PromptHistoryQuery,
    Snippet,
    SnippetsAnswer,
    SnippetsQuery,
)
from tests.support import recorded
from tests.support.scripted_client import ScriptedClient
from tui.chat.prompt.completing import MAX_GHOST, PromptHistory, find_completed_word, find_typed_path
from tui.files.matches import MATCH_STYLE, format_whole_path, mark_words
from tui.screens.controllers.prompt_completion import CompletionController

PAST = ("fix the parser", "fix the tests in shop", "one\ntwo", "explain the parser")
SNIPPETS = SnippetsAnswer(
    snippets=(
        Snippet(name="review", description="Review", text="Review $0 as a pull request.", scope="user", path="r.md"),
        Snippet(
            name="tests", description="Tests", text="Write tests first.\nThen the code.", scope="user", path="t.md"
        ),
    )
)


class HistoryClient(ScriptedClient):
    """Has prompts of other sessions, and finds them by their words as the engine does."""

    async def query(self, query: AnyQuery) -> AnyAnswer:
        if not isinstance(query, PromptHistoryQuery):
            return await super().query(query)
        words = query.pattern.split()
        return PromptHistoryAnswer(prompts=tuple(prompt for prompt in PAST if all(word in prompt for word in words)))


@pytest.fixture
def remembering(monkeypatch):
    monkeypatch.setattr("tests.tui.conftest.ScriptedClient", HistoryClient)


def menu(on):
    completion_list = on.screen.query_one("CompletionList")
    return [
        str(completion_list.get_option_at_index(index).prompt).strip() for index in range(completion_list.option_count)
    ]


# Enter before the list has come


async def test_enter_is_not_lost_when_the_text_outran_the_list(stage, monkeypatch):
    arrived = asyncio.Event()
    find_candidates = CompletionController._find_candidates

    async def find_late(controller, kind, pattern):
        candidates = await find_candidates(controller, kind, pattern)
        if not kind:
            await arrived.wait()
        return candidates

    monkeypatch.setattr(CompletionController, "_find_candidates", find_late)
    async with stage(recorded.opening()) as on:
        await on.pilot.press(*"/policy")
        await on.until(lambda: on.prompt.is_completing)
        await on.pilot.press("space", *"human", "enter")
        arrived.set()
        await on.until(lambda: on.sent(c.PolicySet))
        assert (on.prompt.text, on.sent(c.PolicySet)[0].policy) == ("", "human")


# The search for an earlier prompt


@pytest.mark.parametrize("key", ["alt+r", "ctrl+s"])
async def test_an_earlier_prompt_is_found_by_its_words_and_taken_unsent(stage, remembering, key):
    async with stage(recorded.opening()) as on:
        await on.pilot.press(key)
        await on.until(lambda: on.prompt.is_completing)
        assert menu(on) == ["explain the parser", "one two", "fix the tests in shop", "fix the parser"]
        await on.pilot.press(*"fix par")
        await on.until(lambda: menu(on) == ["fix the parser"])
        await on.pilot.press("enter")
        await on.until(lambda: on.prompt.text == "fix the parser")
        assert (on.prompt.is_searching, on.sent(c.TurnSubmit)) == (False, [])
        await on.pilot.press("enter")
        await on.until(lambda: on.sent(c.TurnSubmit))


async def test_the_key_of_the_search_goes_to_the_prompt_before_and_escape_gives_the_draft_back(stage, remembering):
    async with stage(recorded.opening()) as on:
        await on.pilot.press(*"the", "alt+r")
        await on.until(lambda: on.prompt.is_completing)
        await on.pilot.press("alt+r", "enter")
        await on.until(lambda: on.prompt.text == "fix the tests in shop")
        await on.pilot.press("alt+r")
        await on.until(lambda: on.prompt.is_completing)
        await on.pilot.press("ctrl+w", "escape")
        await on.until(lambda: not on.prompt.is_searching)
        assert on.prompt.text == "fix the tests in shop"
        assert not on.prompt.is_completing


async def test_a_search_that_finds_nothing_sends_nothing(stage, remembering):
    async with stage(recorded.opening()) as on:
        await on.pilot.press(*"draft", "alt+r")
        await on.until(lambda: on.prompt.is_searching and on.screen.query("CompletionList"))
        await on.pilot.press(*"zzz", "enter")
        await on.until(lambda: not on.prompt.is_searching)
        assert (on.prompt.text, on.sent(c.TurnSubmit)) == ("draft", [])


async def test_what_is_left_while_searching_keeps_the_draft(stage, remembering):
    async with stage(recorded.opening()) as on:
        await on.pilot.press(*"draft", "alt+r", *"fix")
        assert (on.prompt.expanded_text, on.prompt.settled_text) == ("draft", "draft")


# What may come next


@pytest.mark.parametrize("key", ["right", "end", "tab", "ctrl+e"])
async def test_the_end_of_an_earlier_prompt_is_shown_and_taken_with_a_key(stage, remembering, key):
    async with stage(recorded.opening()) as on:
        await on.pilot.press(*"fix the t")
        assert on.prompt.suggestion == "ests in shop"
        await on.pilot.press(key)
        assert (on.prompt.text, on.prompt.suggestion) == ("fix the tests in shop", "")
        assert on.prompt.has_focus


async def test_its_next_word_alone_is_taken_with_alt_right(stage, remembering):
    async with stage(recorded.opening()) as on:
        await on.pilot.press(*"fix the t", "alt+right")
        assert (on.prompt.text, on.prompt.suggestion) == ("fix the tests", " in shop")
        await on.pilot.press("alt+f")
        assert (on.prompt.text, on.prompt.suggestion) == ("fix the tests in", " shop")


async def test_enter_sends_what_was_typed_and_not_what_is_shown_behind_it(stage, remembering):
    async with stage(recorded.opening()) as on:
        await on.pilot.press(*"fix the t", "enter")
        await on.until(lambda: on.sent(c.TurnSubmit))
        assert on.sent(c.TurnSubmit)[0].text == "fix the t"


async def test_nothing_is_shown_where_it_would_not_be_added_at_the_end(stage, remembering):
    async with stage(recorded.opening()) as on:
        await on.pilot.press(*"fix the t", "left")
        assert on.prompt.suggestion == ""
        await on.pilot.press("right")
        assert on.prompt.text == "fix the t"
        await on.pilot.press("shift+enter", *"fix the t")
        assert on.prompt.suggestion == ""
        await on.pilot.press("ctrl+c", *"one")
        assert on.prompt.suggestion == ""


async def test_a_path_that_is_typed_is_offered_to_its_end(stage, monkeypatch):
    monkeypatch.setattr("tui.screens.controllers.prompt_completion.GHOST_WAIT", 0.001)
    answer = CompletionAnswer(completions=(Completion(word="my/shop/tax.py"), Completion(word="shop/tax.py")))
    async with stage(recorded.opening(), answers={CompletionQuery: answer}) as on:
        await on.pilot.press(*"look at shop/t")
        await on.until(lambda: on.prompt.suggestion == "ax.py")
        assert not on.prompt.is_completing
        await on.pilot.press("tab")
        assert on.prompt.text == "look at shop/tax.py"


def test_a_ghost_is_the_newest_prompt_that_goes_on_in_the_same_line():
    past = PromptHistory()
    past.set(["run it", "run it twice", "runs\nlong", f"ruin{'x' * (MAX_GHOST + 1)}"])
    assert past.find_ghost("run it") == " twice"
    assert past.find_ghost("run") == ""
    assert past.find_ghost("rui") == ""
    assert past.find_ghost("r") == ""


@pytest.mark.parametrize(
    ("before", "is_first", "word"),
    [
        ("/mo", True, ("/", "mo")),
        ("/mo", False, ("", "")),
        ("see @src/a", True, ("@", "src/a")),
        ("a@b", True, ("", "")),
        (";re", True, (";", "re")),
        ("x ;re", False, (";", "re")),
        ("a;b", True, ("", "")),
        ("a; b", True, ("", "")),
    ],
)
def test_a_sign_at_the_start_of_a_word_asks_for_completion(before, is_first, word):
    assert find_completed_word(before, is_first_line=is_first) == word


@pytest.mark.parametrize(
    ("before", "path"),
    [
        ("see src/a", "src/a"),
        ("src/", "src/"),
        ("in prices.p", "prices.p"),
        ("and", ""),
        ("e.", ""),
        ("https://a/b", ""),
    ],
)
def test_what_has_a_slash_or_a_dot_may_become_a_path(before, path):
    assert find_typed_path(before) == path


# Snippets


async def test_a_snippet_takes_the_place_of_its_name_and_the_cursor_goes_where_it_says(stage):
    async with stage(recorded.opening(), answers={SnippetsQuery: SNIPPETS}) as on:
        await on.pilot.press(*"Please ;rev")
        await on.until(lambda: on.prompt.is_completing)
        assert menu(on) == [";review  [user] Review"]
        await on.pilot.press("tab", *"x.py")
        assert on.prompt.text == "Please Review x.py as a pull request."
        await on.pilot.press("end", *" ;", "down", "enter")
        await on.until(lambda: not on.prompt.is_completing)
        assert on.prompt.text.endswith("request. Write tests first.\nThen the code.")
        assert on.sent(c.TurnSubmit) == []


async def test_a_semicolon_in_a_command_for_the_shell_offers_nothing(stage):
    async with stage(recorded.opening(), answers={SnippetsQuery: SNIPPETS}) as on:
        await on.pilot.press(*"!cd a ;", "enter")
        await on.until(lambda: on.sent(c.CommandRun))
        assert on.sent(c.CommandRun)[0].command == "cd a ;"


# Rows


def test_a_path_that_is_too_long_keeps_what_tells_it_from_the_others():
    long = "services/billing/src/main/java/com/acme/europe/Order.java"
    other = "services/billing/src/main/java/com/acme/asia/Order.java"
    label = format_whole_path(long, (long, other), "order", 34)
    assert (label.plain, len(label.plain) <= 34) == ("…/europe/Order.java", True)
    assert format_whole_path("a/b.py", ("a/b.py",), "b", 34).plain == "a/b.py"


def test_what_was_typed_stands_out():
    marked = [
        label.plain[start:end]
        for label in [format_whole_path("src/default.py", (), "dflt", 40)]
        for start, end, _ in label.spans
    ]
    assert "".join(marked) == "dflt"
    words = mark_words("fix the tests, the tests", "tests fix")
    assert [(words.plain[start:end], style) for start, end, style in words.spans] == [
        ("tests", MATCH_STYLE),
        ("tests", MATCH_STYLE),
        ("fix", MATCH_STYLE),
    ]


# Coming back


async def test_the_engine_is_told_when_the_user_is_back_at_the_window(stage):
    async with stage(recorded.opening()) as on:
        for count in (1, 2):
            on.pilot.app.post_message(events.AppBlur())
            await on.until(lambda: not on.pilot.app.app_focus)
            assert len(on.sent(c.ContextWarm)) == count - 1
            on.pilot.app.post_message(events.AppFocus())
            await on.until(lambda: len(on.sent(c.ContextWarm)) == count)  # noqa: B023
