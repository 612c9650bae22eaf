"""Nothing that is hidden takes keys, and nothing is judged that was not seen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from textual import events
from textual.binding import Binding
from textual.widget import Widget

from core.protocol import commands as c
from core.protocol import documents as d
from core.protocol import events as e
from core.protocol import queries as q
from core.protocol.review import ChangeDiff
from tests.support import recorded
from tests.tui.review_case import PRICES, REMOVED, TESTS
from tui.chat.prompt import Prompt
from tui.dialogs.consent import ChangeConsentDialog
from tui.input.visibility import get_visibility
from tui.review.diff.view import DiffView

START = e.TurnStarted(prompt="go", mode="agent", model="m")
REQUEST = e.ApprovalRequested(
    id="a1", call="c1", kind="command", subject="pytest -q", options=("allow_once", "allow_always", "reject_once")
)
QUESTION = e.QuestionAsked(
    id="q1",
    call="c1",
    questions=(
        d.Question(
            id="q", text="Which one?", options=tuple(d.Option(id=each, label=each) for each in ("one", "two", "three"))
        ),
    ),
    title="First",
    lasting=True,
)
SIZES = [(60, 16), (80, 24), (120, 40), (200, 60)]


def proposed(*diffs: ChangeDiff) -> list[e.AnyEvent]:
    return [*recorded.opening(), *(e.ChangeProposed(change=diff.change) for diff in diffs)]


async def reviewed(on, clock):
    """The review came up, and was looked at."""
    await on.pilot.press("ctrl+r")
    await on.until(lambda: on.screen.query(DiffView) and on.screen.query_one(DiffView).diff is not None)
    review = on.panes.side.get_pane("review")
    review._clock = lambda: clock[0]
    review.browser.restart_grace()
    await on.pilot.pause(0.05)
    clock[0] += 10
    return review


def struck(on, text: str, *, apart: float = 0.05, begin: float = 0.0) -> None:
    """Keys as the terminal's thread hands them over, each with the moment of its own."""
    names = {" ": "space", "\x1b": "escape"}
    first = events.Key("a", "a").time + begin
    for number, letter in enumerate(text):
        event = events.Key(names.get(letter, letter), letter if letter.isprintable() else None)
        event.time = first + number * apart
        on.app.post_message(event)


def judged(on) -> list[str]:
    return [command.verdict for command in on.sent(c.HunkResolve)]


def keys_of(widget: Widget) -> Iterator[str]:
    """Every key of a widget and of what is above it, below the screen."""
    for node in widget.ancestors_with_self:
        for binding in getattr(type(node), "BINDINGS", ()):
            if isinstance(binding, Binding) and not str(binding.id).startswith("app."):
                yield from (key.strip() for key in binding.key.split(","))


PANES = ["review", "plan", "preview", "debug"]


def share_of(size: tuple[int, int], pane: str, keys: Iterator[str]) -> list[str]:
    """A quarter of the keys. Each pane at all sizes gets all of them, each size over all panes, too."""
    return list(dict.fromkeys(keys))[(SIZES.index(size) + (PANES.index(pane) if pane else 0)) % 4 :: 4]


@pytest.mark.slow
@pytest.mark.parametrize("pane", [*PANES, ""])
async def test_n7b_no_key_reaches_what_is_hidden_at_any_size(stage, pane):
    events_ = [*proposed(PRICES, REMOVED), *recorded.planning(), START, REQUEST]
    async with stage(events_, size=SIZES[-1], answers={q.DiffQuery: q.DiffAnswer(diff=PRICES)}) as on:
        await on.until(lambda: on.screen.query("#approval"))
        for pane_name in ("files", "review", "plan", "preview", "debug"):
            await on.panes.ensure_shown(pane_name)
        for size in SIZES:
            await on.pilot.resize_terminal(*size)
            await (on.panes.show(pane) if pane else on.panes.leave_pane())
            await on.pilot.pause(0.1)
            sent = [*on.client.commands]
            await press_hidden(on, size, pane)
            assert on.client.commands == sent


async def press_hidden(on, size: tuple[int, int], pane: str) -> None:
    """Press keys of all that is hidden."""
    hidden = [widget for widget in on.screen.query("*") if widget.can_focus and get_visibility(widget) == "hidden"]
    assert bool(hidden)
    for widget in hidden:
        for key in share_of(size, pane, keys_of(widget)):
            if get_visibility(widget) == "hidden" and key != "escape":  # which puts away what covers it
                with on.app.batch_update():  # no layout between
                    on.screen.focused = widget
                    await on.app.on_event(events.Key(key, key if len(key) == 1 else None))
                    on.app.key_filter.keystrokes.flush()
                    assert on.app.focused is not widget or get_visibility(widget) != "hidden"
    await on.pilot.pause(0.05)


@pytest.mark.parametrize("size", SIZES)
async def test_n7b_an_approval_behind_a_pane_is_told_and_comes_to_the_front_before_it_takes_a_key(stage, size, clock):
    async with stage(proposed(PRICES), size=size, answers={q.DiffQuery: q.DiffAnswer(diff=PRICES)}) as on:
        await reviewed(on, clock)
        await on.emit(START, REQUEST)
        await on.until(lambda: on.screen.query("#approval"))
        bar = on.screen.query_one("#approval")
        assert not bar.has_focus
        status = on.screen.query_one("#status").render().plain
        assert "waiting for you · F2" in status
        await on.pilot.press("f2")
        await on.pilot.pause(0.05)
        assert get_visibility(bar) == "seen"
        assert bar.has_focus
        await on.pilot.press("y")
        assert on.sent(c.ApprovalAnswer) == []
        clock[0] += 1
        await on.pilot.press("y")
        await on.until(lambda: on.sent(c.ApprovalAnswer))


async def asked(on, clock) -> None:
    """The question has the focus, and has had it for a while."""
    await on.until(lambda: on.screen.query("#question") and on.screen.query_one("#question").has_focus)
    clock[0] += 1


async def test_n7b_a_question_stays_in_front_when_the_window_gets_narrow(stage, clock):
    async with stage(proposed(PRICES), answers={q.DiffQuery: q.DiffAnswer(diff=PRICES)}) as on:
        await on.pilot.pause(0.1)
        await on.emit(START, QUESTION)
        await asked(on, clock)
        await on.pilot.resize_terminal(80, 24)
        await on.pilot.pause(0.1)
        bar = on.screen.query_one("#question")
        assert get_visibility(bar) == "seen"
        assert bar.has_focus
        await on.pilot.resize_terminal(30, 8)
        await on.pilot.pause(0.1)
        clock[0] += 1
        await on.pilot.press("2", "enter")
        assert on.sent(c.QuestionReply) == []
        await on.pilot.resize_terminal(80, 24)
        await on.pilot.pause(0.1)
        await on.pilot.press("2")
        assert on.sent(c.QuestionReply) == []
        clock[0] += 1
        await on.pilot.press("2")
        await on.until(lambda: on.sent(c.QuestionReply))


async def test_n7b_words_at_a_question_begin_its_answer_and_not_a_prompt(stage, clock):
    async with stage([*recorded.opening(), START, QUESTION]) as on:
        await asked(on, clock)
        struck(on, "not any of them", apart=0.001)
        await on.until(lambda: on.screen.query_one("#question-own").value == "not any of them")
        assert on.prompt.text == ""


@pytest.mark.parametrize("size", SIZES)
async def test_n7b_an_editor_that_comes_up_behind_another_pane_leaves_no_verdict(stage, size, clock):
    text = q.HunkAnswer(path="src/shop/old.py", hunk="h", text="", start=1)
    answers = {q.DiffQuery: q.DiffAnswer(diff=REMOVED), q.HunkQuery: text}
    async with stage(proposed(REMOVED, TESTS), size=size, answers=answers) as on:
        await reviewed(on, clock)
        for key in ("e", "O", "escape", "a"):
            on.app.post_message(events.Key(key, key if len(key) == 1 else None))
            on.app.key_filter.keystrokes.flush()
        await on.pilot.pause(0.3)
        on.app.key_filter.keystrokes.flush()
        await on.pilot.pause(0.1)
        assert judged(on) == []
        assert get_visibility(on.app.focused) == "seen"


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@pytest.mark.parametrize("apart", [0.0, 0.05, 0.12])
async def test_n7b_a_sentence_typed_into_the_review_goes_to_the_prompt_and_judges_nothing(stage, size, apart, clock):
    async with stage(proposed(PRICES, TESTS), size=size, answers={q.DiffQuery: q.DiffAnswer(diff=PRICES)}) as on:
        await reviewed(on, clock)
        struck(on, "reject all, add a test", apart=apart)
        await on.until(lambda: on.prompt.text == "reject all, add a test")
        assert on.prompt.has_focus
        assert get_visibility(on.prompt) == "seen"
        assert judged(on) == []


async def test_n7b_a_sentence_typed_while_an_approval_has_the_focus_allows_nothing(stage, clock):
    async with stage([*recorded.opening(), START, REQUEST]) as on:
        await on.until(lambda: on.screen.query("#approval") and on.screen.query_one("#approval").has_focus)
        clock[0] += 10
        struck(on, "yes, always")
        await on.until(lambda: on.prompt.text == "yes, always")
        assert on.sent(c.ApprovalAnswer) == []


async def test_n7b_quick_verdicts_by_hand_are_taken(stage, clock):
    async with stage(proposed(PRICES), answers={q.DiffQuery: q.DiffAnswer(diff=PRICES)}) as on:
        await reviewed(on, clock)
        struck(on, "jaja", apart=0.1)
        await on.until(lambda: len(judged(on)) == 2)
        assert judged(on) == ["accept", "accept"]


@pytest.mark.parametrize("keys", ["aaaa", "AAAA"])
async def test_n7b_keys_that_come_all_at_once_after_a_freeze_accept_nothing(stage, keys, clock):
    async with stage(proposed(PRICES), answers={q.DiffQuery: q.DiffAnswer(diff=PRICES)}) as on:
        await reviewed(on, clock)
        struck(on, keys, apart=0.0)
        await on.until(lambda: on.prompt.text == keys)
        assert judged(on) == []


async def test_n7b_a_key_that_was_struck_before_its_hunk_was_on_screen_is_no_verdict(stage, monkeypatch):
    async with stage(proposed(PRICES), answers={q.DiffQuery: q.DiffAnswer(diff=PRICES)}) as on:
        await on.pilot.press("ctrl+r")
        await on.until(lambda: on.screen.query(DiffView) and on.screen.query_one(DiffView).diff is not None)
        now = [1e6]
        review = on.panes.side.get_pane("review")
        review._clock = lambda: now[0]
        review.browser.restart_grace()
        await on.pilot.pause(0.05)
        now[0] += 10
        monkeypatch.setattr(on.app, "seconds_since_struck", lambda: 9.8)
        await on.pilot.press("a")
        assert judged(on) == []
        monkeypatch.setattr(on.app, "seconds_since_struck", lambda: 9.2)
        await on.pilot.press("a")
        await on.until(lambda: judged(on))


async def test_n7b_a_hunk_out_of_sight_is_brought_back_and_not_judged(stage, clock):
    async with stage(proposed(PRICES), size=(80, 16), answers={q.DiffQuery: q.DiffAnswer(diff=PRICES)}) as on:
        await reviewed(on, clock)
        view = on.screen.query_one(DiffView)
        view.scroll_end(animate=False)
        await on.pilot.pause(0.05)
        await on.pilot.press("a")
        assert judged(on) == []
        await on.pilot.pause(0.05)
        assert (PRICES.change.path, PRICES.change.hunks[0].id) in view.visibility._since
        clock[0] += 1
        await on.pilot.press("a")
        await on.until(lambda: judged(on))


async def test_n7b_the_next_hunk_is_not_judged_by_a_key_struck_twice(stage, clock):
    async with stage(proposed(PRICES), size=(80, 16), answers={q.DiffQuery: q.DiffAnswer(diff=PRICES)}) as on:
        await reviewed(on, clock)
        on.screen.query_one(DiffView).select_hunk(1)
        await on.pilot.pause(0.05)
        clock[0] += 1
        struck(on, "aa", apart=0.2)
        await on.until(lambda: judged(on))
        await on.pilot.pause(0.3)
        assert len(judged(on)) == 1


async def test_n7b_a_deletion_asks_with_its_lines_and_hears_no_key_that_comes_too_soon(stage, clock, monkeypatch):
    monkeypatch.setattr("tui.dialogs.dialog.GRACE_SECONDS", 0.4)
    async with stage(proposed(REMOVED), answers={q.DiffQuery: q.DiffAnswer(diff=REMOVED)}) as on:
        await reviewed(on, clock)
        await on.pilot.press("a")
        await on.until(lambda: isinstance(on.app.screen, ChangeConsentDialog))
        await on.pilot.pause(0.05)
        assert on.app.screen.query_one(DiffView).diff == REMOVED
        await on.pilot.press("y", "enter", "space")
        assert isinstance(on.app.screen, ChangeConsentDialog)
        clock[0] += 0.5
        await on.pilot.press("enter", "space")
        assert judged(on) == []
        await on.pilot.press("y")
        await on.until(lambda: judged(on) == ["accept"])


async def test_n7b_files_that_are_gone_are_named_before_all_is_accepted(stage, clock):
    async with stage(proposed(REMOVED, TESTS)) as on:
        on.prompt.text = "/accept all"
        on.prompt.submit()
        await on.asked()
        await on.pilot.press("n")
        await on.until(lambda: on.app.screen is on.screen)
        assert judged(on) == []


async def test_n7b_a_dialog_about_a_protected_file_shows_that_file_and_so_does_the_review(stage, clock):
    protected = replace(PRICES, change=replace(PRICES.change, protected=True, risk="runs automatically"))
    async with stage(proposed(protected, TESTS), answers={q.DiffQuery: q.DiffAnswer(diff=protected)}) as on:
        await reviewed(on, clock)
        await on.pilot.press("A")
        await on.until(lambda: isinstance(on.app.screen, ChangeConsentDialog))
        await on.pilot.pause(0.05)
        assert on.app.screen.query_one(DiffView).diff.change.path == PRICES.change.path
        assert on.screen.query_one(DiffView).diff.change.path == PRICES.change.path
        clock[0] += 1
        await on.pilot.press("y")
        await on.until(lambda: judged(on))
        assert on.sent(c.HunkResolve)[0].confirmed


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_n7b_what_is_pasted_into_the_review_is_text(stage, size, clock):
    async with stage(proposed(PRICES), size=size, answers={q.DiffQuery: q.DiffAnswer(diff=PRICES)}) as on:
        await reviewed(on, clock)
        on.app.post_message(events.Paste("aAy\nrR"))
        struck(on, "a")
        await on.until(lambda: on.prompt.text == "aAy\nrRa")
        assert judged(on) == []


async def test_n7b_a_second_click_does_not_hit_what_the_first_one_brought_there(stage, clock):
    async with stage(proposed(PRICES), answers={q.DiffQuery: q.DiffAnswer(diff=PRICES)}) as on:
        await reviewed(on, clock)
        view = on.screen.query_one(DiffView)
        place = (view.size.width - 5, view.find_hunk_rows(1)[0] - view.scroll_offset.y)
        await on.pilot.click(DiffView, offset=place, times=2)
        assert (view.current, judged(on)) == (1, [])
        clock[0] += 1
        await on.pilot.click(DiffView, offset=place)
        await on.until(lambda: judged(on) == ["reject"])


@pytest.mark.parametrize("size", [(45, 8), (30, 20), (1, 1), (20, 5)])
async def test_n16e_a_window_that_was_too_small_gives_the_prompt_its_focus_back(stage, size):
    async with stage(recorded.opening()) as on:
        await on.pilot.press(*"hi")
        await on.pilot.resize_terminal(*size)
        await on.pilot.pause(0.1)
        await on.pilot.press("x")
        await on.pilot.resize_terminal(80, 24)
        await on.pilot.pause(0.1)
        assert isinstance(on.app.focused, Prompt)
        await on.pilot.press("!")
        assert on.prompt.text == "hi!"


async def test_n16e_t6_any_size_and_a_hundred_of_them_leave_everything_as_it_was(stage):
    async with stage(proposed(PRICES), answers={q.DiffQuery: q.DiffAnswer(diff=PRICES)}) as on:
        await on.pilot.press("ctrl+r")
        sizes = [(1, 1), (500, 200), (20, 5), (80, 24), (2, 90), (300, 1), (41, 11), (100, 24), (99, 10), (140, 40)]
        for size in sizes * 10:
            on.app.post_message(events.Resize(size, size))
        await on.pilot.resize_terminal(120, 40)
        await on.pilot.pause(0.2)
        assert on.app.focused is not None
        assert get_visibility(on.app.focused) == "seen"
        assert on.app.return_code is None


async def test_n16a_a_file_that_is_to_be_deleted_is_shown_as_it_still_is(stage, clock):
    answers = {
        q.DiffQuery: q.DiffAnswer(diff=REMOVED),
        q.FileQuery: q.FileAnswer(path="src/shop/old.py", text="import math"),
    }
    async with stage(proposed(REMOVED), size=(80, 24), answers=answers) as on:
        await reviewed(on, clock)
        await on.pilot.press("O")
        await on.until(
            lambda: on.screen.query("FileView") and "import math" in on.screen.query_one("FileView").cursor.lines
        )
        assert [query.side for query in on.client.queries if isinstance(query, q.FileQuery)] == ["workspace"]
        assert "deleted once you accept" in str(on.screen.query_one(".preview--title").content)


async def test_n7b_a_key_that_was_struck_for_nothing_is_not_done_by_what_gets_the_focus_meanwhile(stage):
    async with stage([*recorded.opening(), *recorded.planning()]) as on:
        await on.panes.show("plan")
        await on.pilot.pause(0.05)
        todos = on.app.focused
        on.screen.set_focus(None)
        await on.app.on_event(events.Key("b", "b"))
        on.screen.set_focus(todos)
        await on.pilot.pause(0.05)
        assert on.sent(c.PlanBuild) == []
        await on.pilot.press("b")
        await on.until(lambda: on.sent(c.PlanBuild))
