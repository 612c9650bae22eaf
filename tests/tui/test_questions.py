"""The bar of questions: every key, the mouse, what is left open, and what is shown afterwards."""

from __future__ import annotations

import pytest
from textual import events

from core.protocol import commands as c
from core.protocol import documents as d
from core.protocol import events as e
from core.protocol.documents import QuestionAnswer
from tests.support import recorded
from tui.ask.question_bar import QuestionBar
from tui.ask.question_parts import FreeTextInput, QuestionBody, QuestionTabs

START = e.TurnStarted(prompt="Plan it", mode="plan", model="m")


def options(*labels: str, best: int = -1) -> tuple[d.Option, ...]:
    return tuple(d.Option(id=label[0], label=label, recommended=at == best) for at, label in enumerate(labels))


ONE = d.Question(id="db", header="Database", text="Which database?", options=options("alpha", "beta", "gamma", best=1))
TWO = d.Question(id="q2", text="Which login?", options=options("jwt", "session"))
MANY = d.Question(id="parts", text="Which?", options=options("unit", "slow", "all", best=0), allow_multiple=True)


def asking(*questions: d.Question, name: str = "ask_1", call: str = "c9") -> list[e.AnyEvent]:
    return [
        e.DocumentStarted(id=f"doc_{name}", kind="clarification", sequence=1, title="ask_question"),
        e.ToolRequested(call=call, tool="ask_question", arguments="{}", document=f"doc_{name}", summary="Which?"),
        e.QuestionAsked(id=name, call=call, questions=questions, title="First", lasting=True),
    ]


def ended(*questions: d.Question, name: str = "ask_1", call: str = "c9", answers=(), status="cancelled"):
    asked = d.ClarificationMetadata(questions=questions, answers=answers)
    return [
        e.DocumentFinished(
            document=d.ClarificationDocument(id=f"doc_{name}", sequence=1, content="First", metadata=asked)
        ),
        e.ToolFinished(call=call, tool="ask_question", status=status),
    ]


@pytest.fixture
def put(stage, monkeypatch):
    """A stage on which questions are put in a turn that waits for them."""
    monkeypatch.setattr("tui.ask.question_bar.GRACE", 0.0)

    def staged(*questions: d.Question, size=(120, 40), more=(), **client):
        return stage([*recorded.opening("plan"), START, *asking(*questions), *more], size=size, **client)

    return staged


def bar(on) -> QuestionBar:
    return on.screen.query_one(QuestionBar)


async def up(on) -> None:
    await on.until(lambda: on.screen.query(QuestionBar) and bar(on).has_focus)


async def test_a_digit_is_a_command_as_far_as_there_are_options(put):
    async with put(ONE) as on:
        await up(on)
        kinds = [on.app.key_filter._classify_key(events.Key(key, key)) for key in "134x"]
        assert kinds == ["command", "command", "none", "none"]


async def answers(on) -> tuple[QuestionAnswer, ...]:
    await on.until(lambda: on.sent(c.QuestionReply))
    assert len(on.sent(c.QuestionReply)) == 1
    return on.sent(c.QuestionReply)[0].answers


def chosen(question: d.Question, *ids: str, text: str = "") -> QuestionAnswer:
    return QuestionAnswer(question=question.id, options=ids, text=text)


@pytest.mark.parametrize(
    ("keys", "answer"),
    [
        (["enter"], chosen(ONE, "b")),
        (["3"], chosen(ONE, "g")),
        (["up", "enter"], chosen(ONE, "a")),
        (["down", "down", "down", "enter"], chosen(ONE, "a")),
        (["9", "0", "space", "1", "enter"], chosen(ONE, text="90 1")),
        ([*"no 2", "enter"], chosen(ONE, text="no 2")),
        (["down", "down", *"own", "enter"], chosen(ONE, text="own")),
        ([*"why", "up", "enter"], chosen(ONE, "g", text="why")),
        ([*"x", "backspace", "enter", "escape", "enter"], chosen(ONE, "g")),
        (["ctrl+d"], None),
        (["delete"], None),
    ],
    ids=["enter", "digit", "up", "around", "own-digits", "own", "own-line", "note", "empty", "dismiss", "delete"],
)
async def test_one_question_and_each_key(put, keys, answer):
    async with put(ONE) as on:
        await up(on)
        for key in keys:
            await on.pilot.press(key)
        assert await answers(on) == (() if answer is None else (answer,))


async def test_several_questions_are_tabs_and_an_answer_can_be_changed_until_the_last_is_given(put):
    async with put(ONE, TWO, MANY) as on:
        await up(on)
        strip = on.screen.query_one(QuestionTabs)
        assert str(strip.render()).split() == ["1/3", "Database", "Which", "login?", "Parts"]
        for keys, label in ((["tab"], "q2"), (["right"], "parts"), (["left", "shift+tab"], "db"), (["1"], "q2")):
            await on.pilot.press(*keys)
            assert bar(on).question.id == label
        assert "Database ✓" in str(strip.render())
        assert on.sent(c.ModeSet) == []
        await on.pilot.press("left", "3", "enter")  # another answer to the first, then what is marked of the second
        assert bar(on).question.id == "parts"
        await on.pilot.press("2", "down", "space", "up", "up", "space", "enter")
        assert await answers(on) == (chosen(ONE, "g"), chosen(TWO, "j"), chosen(MANY, "s", "a"))
        await on.pilot.press("enter")
        assert len(on.sent(c.QuestionReply)) == 1


async def test_everything_can_be_done_with_the_mouse(put):
    async with put(ONE, MANY) as on:
        await up(on)
        strip, rows = on.screen.query_one(QuestionTabs), on.screen.query_one(QuestionBody)
        await on.pilot.click(QuestionTabs, offset=(strip.spans[1][1], 0))
        assert bar(on).question.id == "parts"
        texts = [rows.get_row_text(row) for row in range(rows.count_rows())]
        at = {word: next(row for row, text in enumerate(texts) if word in text) for word in ("slow", "unit", "⏎")}
        await on.pilot.click(QuestionBody, offset=(6, at["slow"]))
        await on.pilot.click(QuestionBody, offset=(6, at["unit"]))
        await on.pilot.click(QuestionBody, offset=(6, at["⏎"]))
        assert bar(on).question.id == "db"
        await on.pilot.click(FreeTextInput)
        await on.pilot.press(*"none", "enter")
        assert await answers(on) == (chosen(ONE, text="none"), chosen(MANY, "s"))


async def test_an_answer_can_be_written_in_the_prompt_and_a_command_goes_there_by_itself(put):
    async with put(ONE) as on:
        await up(on)
        await on.pilot.press("!", *"ls")
        assert (on.prompt.text, on.prompt.has_focus) == ("!ls", True)
        await on.pilot.press("enter")
        assert on.sent(c.CommandRun)[0].command == "ls"
        on.prompt.text = "two\nlines"
        await on.pilot.press("enter")
        assert await answers(on) == (chosen(ONE, text="two\nlines"),)


async def test_escape_goes_to_the_prompt_and_from_there_stops_the_turn_while_the_question_stays(put):
    async with put(ONE) as on:
        await up(on)
        await on.pilot.press(*"me", "escape")
        assert bar(on).has_focus
        await on.pilot.press("escape")
        await on.until(lambda: on.prompt.has_focus)
        assert on.sent(c.TurnInterrupt) == []
        await on.pilot.press("escape")
        await on.until(lambda: on.sent(c.TurnInterrupt))
        await on.emit(*ended(ONE), e.TurnFinished(reason="interrupted"))
        assert (bar(on).display, bar(on).size.height) == (True, 1)  # folded
        assert any("not answered yet" in line for line in on.lines())
        await on.pilot.press(*"Something else", "enter")
        await on.until(lambda: on.sent(c.TurnSubmit))
        await on.pilot.press("f2", "enter")
        assert await answers(on) == (chosen(ONE, "g", text="me"),)
        await on.emit(e.QuestionAnswered(id="ask_1", answers=(chosen(ONE, "g", text="me"),)))
        assert not bar(on).display
        assert on.prompt.has_focus
        assert any("↳ gamma, me" in line for line in on.lines())


async def test_a_question_that_was_left_open_is_there_again_in_a_session_that_is_resumed(stage, monkeypatch):
    monkeypatch.setattr("tui.ask.question_bar.GRACE", 0.0)
    left = [START, *asking(ONE), *ended(ONE), e.TurnFinished(reason="interrupted"), e.SessionResumed()]
    trust = e.TrustStated(state="asked", directory="/home/u/shop")
    async with stage([*recorded.opening("plan"), *left, trust], size=(60, 16)) as on:
        await up(on)
        await on.until(lambda: not any(widget.display for widget in on.screen.query("#trust")))  # one after the other
        await on.pilot.press("escape")
        await on.until(lambda: on.screen.query("#trust") and on.screen.query_one("#trust").display)
        await on.pilot.press("f2")
        await on.until(lambda: not on.screen.query_one("#trust").display)
        await on.pilot.press("2")
        assert await answers(on) == (chosen(ONE, "b"),)


async def test_a_refused_answer_can_be_given_again(put):
    def react(_, command):
        return c.Reject(code="x", message="No model.") if isinstance(command, c.QuestionReply) else None

    async with put(ONE, react=react) as on:
        await up(on)
        await on.pilot.press("enter")
        await on.until(lambda: len(on.app._notifications) == 1)
        await on.pilot.press("enter")
        await on.until(lambda: len(on.sent(c.QuestionReply)) == 2)
        assert on.sent(c.QuestionReply)[0] == on.sent(c.QuestionReply)[1]


async def test_what_is_scrolled_away_is_brought_into_sight_and_not_chosen(put):
    long = d.Question(id="l", text="word " * 380, options=options("aaa", "bbb", best=1))
    async with put(long, size=(60, 16)) as on:
        await up(on)
        rows = on.screen.query_one(QuestionBody)
        await on.pilot.press("enter")
        assert on.sent(c.QuestionReply) == []
        assert rows.is_visible(1)
        end = rows.scroll_offset.y
        await on.pilot.press("pageup", "pageup")
        begin = rows.scroll_offset.y
        await on.pilot.press("pagedown")
        assert begin < rows.scroll_offset.y <= end
        await on.pilot.press("pageup", "up")
        assert rows.is_visible(0)
        await on.pilot.press("enter")
        assert await answers(on) == (chosen(long, "a"),)


async def test_a_key_that_was_on_its_way_elsewhere_chooses_nothing(stage, monkeypatch):
    monkeypatch.setattr("tui.ask.question_bar.GRACE", 3_600.0)
    async with stage([*recorded.opening("plan"), START, *asking(ONE)]) as on:
        await up(on)
        await on.pilot.press("enter", "1", "space", "ctrl+d")
        assert on.sent(c.QuestionReply) == []


async def test_a_question_does_not_take_the_focus_from_what_is_being_written(stage):
    async with stage([*recorded.opening("plan"), START]) as on:
        await on.pilot.press(*"hello")
        await on.emit(*asking(ONE, TWO))
        await on.until(lambda: on.screen.query(QuestionBar))
        await on.pilot.press("1")
        assert on.prompt.text == "hello1"
        assert on.sent(c.QuestionReply) == []


async def test_what_the_model_writes_badly_is_shown_and_does_nothing(put):
    nasty = "[@click=app.quit]x[/] \x1b[31mred\x1b[0m \u202etxt `code` **bold** " + "w" * 400
    question = d.Question(
        id="x", header=nasty, text=nasty, options=tuple(d.Option(id=str(n), label=nasty + str(n)) for n in range(9))
    )
    async with put(question, d.Question(id="y", text="?"), size=(60, 16)) as on:
        await up(on)
        rows = on.screen.query_one(QuestionBody)
        text = "\n".join(rows.get_row_text(row) for row in range(rows.count_rows()))
        assert "[@click=app.quit]x[/] ␛[31mred␛[0m" in text
        assert "\x1b" not in text
        assert "\u202e" not in text
        await on.pilot.press("9", "9", *"free", "enter")  # it was out of sight
        assert await answers(on) == (
            QuestionAnswer(question="x", options=("8",)),
            QuestionAnswer(question="y", text="free"),
        )


async def test_a_rewind_opens_the_question_again_on_the_screen_too(stage):
    answer = (chosen(ONE, "a"),)
    events = [
        *recorded.opening("plan"),
        e.CheckpointCreated(id="k1", seq=2),
        START,
        *asking(ONE),
        *ended(ONE),
        e.TurnFinished(reason="interrupted"),
        e.QuestionAnswered(id="ask_1", answers=answer),
        e.CheckpointCreated(id="k2", seq=3),
        e.AnswersReported(ids=("ask_1",)),
    ]
    async with stage(events) as on:
        assert on.screen.state.open_question is None
        await on.emit(e.ConversationRewound(checkpoint="k2", to_seq=0))
        assert on.screen.state.open_question.id == "ask_1"
        assert any("not answered yet" in line for line in on.lines())
        await on.emit(e.ConversationRewound(checkpoint="k1", to_seq=0))
        assert on.screen.state.open_question is None
