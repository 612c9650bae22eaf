"""The bar that puts the model's questions: options by number or arrows; free text is written in the prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from core.protocol.documents import Question, QuestionAnswer
from core.protocol.events import QuestionAsked
from tui.keymap import bindings
from tui.text import clean, one_line


class QuestionBar(Static, can_focus=True):
    """Puts one question after the other and posts all answers together."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("question")

    @dataclass
    class Answered(Message):
        """All questions have an answer; none means that the user dismissed them."""

        id: str
        answers: tuple[QuestionAnswer, ...]

    @dataclass
    class Typed(Message):
        """The user began to write: it belongs into the prompt."""

        text: str

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._asked: QuestionAsked | None = None
        self._answers: list[QuestionAnswer] = []
        self._marked = 0
        self._ticked: set[str] = set()
        self._writes = False  # keys that come before the prompt has the focus are no answers
        self.display = False

    def ask(self, asked: QuestionAsked | None) -> bool:
        """Show questions (None hides the bar). True: they are others than before."""
        is_new = asked is not None and (self._asked is None or asked.id != self._asked.id)
        self._asked = asked
        self.display = asked is not None
        if is_new:
            self._answers, self._marked = [], 0
            self._ticked.clear()
        self._draw()
        return is_new

    @property
    def question(self) -> Question | None:
        """The one that is put now."""
        at = len(self._answers)
        return self._asked.questions[at] if self._asked and at < len(self._asked.questions) else None

    def _draw(self) -> None:
        question, asked = self.question, self._asked
        if question is None or asked is None:
            return
        count = len(asked.questions)
        number = f"  {len(self._answers) + 1} of {count}" if count > 1 else ""
        parts: list[tuple[str, str]] = [(clean(question.text), "bold"), (number, "$foreground 60%")]
        for index, option in enumerate(question.options):
            here = index == self._marked
            tick = ("☑ " if option.id in self._ticked else "☐ ") if question.allow_multiple else ""
            parts.append((f"\n{'❯' if here else ' '} ", "$accent"))
            parts.append((f"{index + 1} {tick}{one_line(option.label, 160)}", "bold $accent" if here else ""))
        keys = "space marks · enter answers · " if question.allow_multiple else "enter or a number answers · "
        parts.append((f"\n  {keys}escape dismisses · or write an answer in the prompt", "$foreground 60%"))
        self.update(Content.assemble(*parts))

    def on_focus(self, _: events.Focus) -> None:
        self._writes = False

    def on_key(self, event: events.Key) -> None:
        question = self.question
        if question is None:
            return
        count = len(question.options)
        if self._writes and event.character and event.is_printable:
            self.post_message(self.Typed(event.character))
        elif event.key in {"up", "down"} and count:
            self._marked = (self._marked + (1 if event.key == "down" else -1)) % count
        elif event.character and event.character.isdigit() and 0 < int(event.character) <= count:
            self._marked = int(event.character) - 1
            self._tick_or_answer(question)
        elif event.key == "space" and count and question.allow_multiple:
            self._ticked ^= {question.options[self._marked].id}
        elif event.character and event.is_printable and not event.character.isspace():
            self._writes = True
            self.post_message(self.Typed(event.character))
        else:
            return
        event.stop()
        self._draw()

    def _tick_or_answer(self, question: Question) -> None:
        if question.allow_multiple:
            self._ticked ^= {question.options[self._marked].id}
        else:
            self.action_accept_option()

    def action_accept_option(self) -> None:
        """Answer with the marked option, or with all that are ticked."""
        question = self.question
        if question is None or not question.options or self._writes:
            return
        chosen = [option.id for option in question.options if option.id in self._ticked]
        self._take(QuestionAnswer(question=question.id, options=tuple(chosen or [question.options[self._marked].id])))

    def answer_freely(self, text: str) -> None:
        """Answer in the user's own words."""
        if (question := self.question) is not None:
            self._take(QuestionAnswer(question=question.id, text=text))

    def _take(self, answer: QuestionAnswer) -> None:
        assert self._asked is not None
        self._answers.append(answer)
        self._marked = 0
        self._ticked.clear()
        if len(self._answers) == len(self._asked.questions):
            self.post_message(self.Answered(self._asked.id, tuple(self._answers)))
        else:
            self._draw()

    def action_dismiss_question(self) -> None:
        """Go on without an answer."""
        if self._asked is not None:
            self.post_message(self.Answered(self._asked.id, ()))
