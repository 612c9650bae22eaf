"""The bar that puts the model's questions: a tab for each, its options by number, arrows or mouse, and a line for words
of the user's own.

What is out of sight is never chosen: an answer that would take an option that is scrolled away brings it into view
first. A question that no turn waits for any more folds to one line as long as it has no focus.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from textual import events, on
from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from core.protocol.documents import Question, QuestionAnswer
from core.protocol.events import QuestionAsked
from tui.keymap import bindings, key_of
from tui.sight import Guard, Guarded
from tui.strokes import Kind
from tui.text import one_line
from tui.widgets.question_parts import OwnWords, QuestionBody, QuestionTabs
from tui.widgets.question_rows import DIM, TAKE, Choice, body, hints, tabs

GRACE: Final = 0.4  # seconds after it came up in which nothing is chosen by a key that was meant for something else


class QuestionBar(Guarded, Vertical, can_focus=True):
    """Puts the questions of one call, and posts all answers together."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("question")

    @dataclass
    class Answered(Message):
        """All questions have an answer; none means that the user dismissed them."""

        id: str
        answers: tuple[QuestionAnswer, ...]

    @dataclass
    class Typed(Message):
        """What the user writes belongs into the prompt: a command, or a text of several lines."""

        text: str

    class Folded(Message):
        """It became one line, or more than that."""

    class Left(Message):
        """The user goes on in the prompt; the question stays."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._asked: QuestionAsked | None = None
        self._choices: list[Choice] = []
        self._at = 0
        self._awaited = False
        self.guard = Guard(GRACE)
        self._is_sent = False
        self.is_folded = False
        self._writes = False  # keys that come before the line has the focus belong to it all the same
        self.display = False

    def compose(self) -> ComposeResult:
        yield QuestionTabs(id="question-tabs")
        yield QuestionBody(id="question-body")
        yield OwnWords(placeholder="or in your own words: just type", id="question-own", select_on_focus=False)
        yield Static(id="question-keys")

    # What is asked.

    def ask(self, asked: QuestionAsked | None, *, awaited: bool = True) -> bool:
        """Show questions (None hides the bar). True: they are others than before. `awaited`: a turn waits for them."""
        is_new = asked is not None and (self._asked is None or asked.id != self._asked.id)
        self._asked, self._awaited = asked, awaited
        self.display = asked is not None
        if is_new and asked is not None:
            self._choices = [Choice.first(question) for question in asked.questions]
            self.unseen()
            self._is_sent = False
            self._go_to(0)
        self.draw()
        return is_new

    @property
    def question(self) -> Question | None:
        """The one that is put now."""
        asked = self._asked
        return asked.questions[self._at] if asked and self._at < len(asked.questions) else None

    @property
    def has_several(self) -> bool:
        """Whether there are tabs to go through."""
        return len(self._choices) > 1

    @property
    def _choice(self) -> Choice:
        return self._choices[self._at]

    @property
    def _own(self) -> OwnWords:
        return self.query_one(OwnWords)

    # Drawing.

    def draw(self) -> None:
        """Lay everything out for the width that there is."""
        question, asked = self.question, self._asked
        if question is None or asked is None or not self.is_mounted:
            return
        width = max(self.size.width - 3, 12)
        is_folded = not self._awaited and not self.has_focus_within
        if is_folded != self.is_folded:
            self.is_folded = is_folded
            self.post_message(self.Folded())
        for child in self.children:
            child.display = not is_folded or child.id == "question-keys"
        strip = self.query_one(QuestionTabs)
        strip.display = self.has_several and not is_folded
        pieces, strip.spans = tabs(asked, self._choices, self._at, width)
        strip.update(Content.assemble(*pieces))
        self.query_one(QuestionBody).show(body(question, self._choice, asked.title, width))
        keys = self._folded(asked, width) if is_folded else Content.assemble(*hints(self._hints(question), width))
        self.query_one("#question-keys", Static).update(keys)

    def _folded(self, asked: QuestionAsked, width: int) -> Content:
        key = key_of("app.answer", getattr(self.app, "keymap", {}))
        more = f" (+{len(asked.questions) - 1})" if self.has_several else ""
        room = max(width - len(key) - len(more) - 14, 10)
        text = one_line(asked.questions[0].text, room)
        return Content.assemble(
            ("? ", "$warning"), (f"{text}{more}", ""), ("  ", ""), (key, "bold $accent"), (" answers", DIM)
        )

    def _hints(self, question: Question) -> list[tuple[str, str]]:
        keymap = getattr(self.app, "keymap", {})
        count = len(question.options)
        parts = [(key_of("question.accept", keymap), "answers")]
        parts += [(key_of("question.tick", keymap), "marks")] if question.allow_multiple else []
        parts += [(f"1–{count}", "")] if count > 1 else []
        parts += [(key_of("question.next", keymap), "next question")] if self.has_several else []
        parts += [(key_of("question.leave", keymap), "later"), (key_of("question.dismiss", keymap), "go on without me")]
        return parts

    def on_resize(self, _: events.Resize) -> None:
        self.draw()

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _focus_moved(self) -> None:
        self.call_after_refresh(self.draw)

    def on_focus(self, _: events.Focus) -> None:
        self._writes = False
        self.call_after_refresh(self.draw)

    def on_blur(self, _: events.Blur) -> None:
        self.call_after_refresh(self.draw)

    # Going about.

    def _go_to(self, at: int) -> None:
        self._at = at
        if self.is_mounted:
            self._own.value = self._choice.own
            self.draw()
            self.query_one(QuestionBody).scroll_home(animate=False)

    @on(QuestionTabs.Picked)
    def _tab_picked(self, event: QuestionTabs.Picked) -> None:
        event.stop()
        self.focus()
        self._go_to(event.at)

    def action_turn(self, by: int) -> None:
        """Another question, in a circle."""
        if not self.has_several:
            raise SkipAction
        self.focus()
        self._go_to((self._at + by) % len(self._choices))

    def action_move(self, by: int) -> None:
        """Another option; the last place is the line for own words."""
        question = self.question
        if question is None:
            return
        count = len(question.options)
        self._choice.marked = (self._choice.marked + by) % (count + 1)
        if self._choice.marked == count:
            self._own.focus()
        elif self._own.has_focus:
            self.focus()
        self.draw()
        self.query_one(QuestionBody).reveal(self._choice.marked)

    def action_page(self, by: int) -> None:
        """Scroll through a long question."""
        rows = self.query_one(QuestionBody)
        rows.scroll_relative(y=by * max(rows.size.height - 1, 1), animate=False)

    def action_leave_question(self) -> None:
        """To the prompt; from the line for own words first back to the options."""
        if self._own.has_focus and self.question is not None and self.question.options:
            self._choice.marked = min(self._choice.marked, len(self.question.options) - 1)
            self.focus()
            self.draw()
            return
        self.post_message(self.Left())

    # Answering.

    @property
    def _takes_answers(self) -> bool:
        return self.question is not None and not self._is_sent and self.is_read()

    def kind_of(self, event: events.Key) -> Kind:
        """A digit takes an option, unless it begins a text."""
        return "command" if self._digit(event.character) else "none"

    def _digit(self, character: str | None) -> int:
        """The number of an option, 0 = it is none."""
        question = self.question
        if question is None or not character or not (character.isdigit() and character.isascii()):
            return 0
        return int(character) if int(character) <= len(question.options) else 0

    def take_text(self, text: str) -> None:
        """What is typed here is an answer of the user's own."""
        if self.question is not None:
            self._writes = True
            self._choice.marked = len(self.question.options)
            self._own.focus()
            self._own.insert_text_at_cursor(text)

    def on_key(self, event: events.Key) -> None:
        """Digits choose; everything else that can be read is the beginning of an answer, or of a command."""
        question, character = self.question, event.character
        if question is None or not character or not event.is_printable or self._own.has_focus:
            return
        if self._writes:
            self._own.insert_text_at_cursor(character)
        elif number := self._digit(character):
            self._pick(number - 1)
        elif character == "!":
            self.post_message(self.Typed(character))
        elif not character.isspace():
            self.take_text(character)
        else:
            return
        event.stop()

    def on_paste(self, event: events.Paste) -> None:
        """What is pasted is an answer of the user's own."""
        event.stop()
        self._own.focus()
        self._own._on_paste(event)

    @on(QuestionBody.Picked)
    def _clicked(self, event: QuestionBody.Picked) -> None:
        event.stop()
        self.focus()
        if event.item == TAKE:
            self.action_accept_option()
        else:
            self._pick(event.item)

    def _pick(self, item: int) -> None:
        """Take an option by its number; one of several is only ticked."""
        question = self.question
        if question is None or not self._takes_answers:
            return
        self._choice.marked = item
        if question.allow_multiple:
            self._choice.ticked ^= {question.options[item].id}
            self.draw()
        else:
            self.action_accept_option()

    def action_tick(self) -> None:
        """Choose the marked option among others, or not."""
        question = self.question
        if question is None or not question.allow_multiple or self._choice.marked >= len(question.options):
            raise SkipAction
        self._pick(self._choice.marked)

    def action_accept_option(self) -> None:
        """Answer with the marked option, or with all that are ticked; a note beside it goes with it."""
        question = self.question
        if question is None or not self._takes_answers:
            return
        choice, rows = self._choice, self.query_one(QuestionBody)
        if self._writes or choice.marked >= len(question.options):
            self._take_own(self._own.value)
        elif not rows.is_seen(choice.marked):
            self.draw()
            rows.reveal(choice.marked)
        else:
            chosen = [option.id for option in question.options if option.id in choice.ticked]
            options = tuple(chosen or [question.options[choice.marked].id])
            self._take(QuestionAnswer(question=question.id, options=options, text=self._own.value.strip()))

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if self._choices:
            self._choice.own = event.value

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self._takes_answers:
            self._take_own(event.value)

    @on(OwnWords.Long)
    def _long(self, event: OwnWords.Long) -> None:
        event.stop()
        self._own.value = ""
        self.post_message(self.Typed(event.text))

    def _take_own(self, text: str) -> None:
        if text.strip():
            self.answer_freely(text)

    def answer_freely(self, text: str) -> None:
        """Answer the question at hand in the user's own words."""
        if (question := self.question) is not None:
            self._take(QuestionAnswer(question=question.id, text=text))

    def _take(self, answer: QuestionAnswer) -> None:
        assert self._asked is not None
        self._choice.answer = answer
        self._writes = False
        after = [*range(self._at + 1, len(self._choices)), *range(self._at)]
        left = next((at for at in after if self._choices[at].answer is None), None)
        if left is not None:
            self._go_to(left)
            self.focus()
            return
        self._is_sent = True
        answers = tuple(each.answer for each in self._choices if each.answer is not None)
        self.post_message(self.Answered(self._asked.id, answers))
        self.draw()

    def take_back(self) -> None:
        """The answers were refused: they can be given again."""
        self._is_sent = False

    def action_dismiss_question(self) -> None:
        """Go on without an answer."""
        if self._asked is not None and self._takes_answers:
            self._is_sent = True
            self.post_message(self.Answered(self._asked.id, ()))
