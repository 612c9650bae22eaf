"""The bar with the model's questions: a tab per question, options by number, arrows or mouse, and free text.

A hidden option is never chosen: an answer that would choose one scrolls it into view first. A question without a
waiting turn folds to one line while it is not focused.
"""

from __future__ import annotations

from typing import Final

from textual import events, on
from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Static

from core.protocol.documents import Question, QuestionAnswer
from core.protocol.events import QuestionAsked
from tui.ask import messages
from tui.ask.question_parts import (
    MUTED,
    TAKE_TICKED,
    AnswerDraft,
    FreeTextInput,
    QuestionBody,
    QuestionTabs,
    render_body,
    render_hints,
    render_tabs,
)
from tui.input.keystrokes import KeyKind, TypedWidget
from tui.input.visibility import GracePeriod, GuardedWidget
from tui.keymap import format_first_key, get_bindings, get_keymap
from tui.text import fit_line
from tui.widgets.text_rows import Piece

GRACE: Final = 0.4  # grace period in seconds, during which keys for the previous content choose nothing


class QuestionBar(TypedWidget, GuardedWidget, Vertical, can_focus=True):
    """Asks the questions of one call and posts all answers together."""

    BINDINGS = get_bindings("question")

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._request: QuestionAsked | None = None
        self._drafts: list[AnswerDraft] = []
        self._index = 0
        self._is_awaited = False
        self.grace_period = GracePeriod(GRACE)
        self._is_sent = False
        self.is_folded = self._is_elsewhere = False
        self._is_writing = False  # keys that come before the line has the focus belong to it all the same
        self.display = False

    def compose(self) -> ComposeResult:
        yield QuestionTabs(id="question-tabs")
        yield QuestionBody(id="question-body")
        yield FreeTextInput(placeholder="or just type your own answer", id="question-own", select_on_focus=False)
        yield Static(id="question-keys")

    # Content

    def show(self, request: QuestionAsked | None, *, is_awaited: bool = True) -> bool:
        """Show questions, None hides the bar. Return True if they are new. `is_awaited`: a turn waits for them."""
        is_new = request is not None and (self._request is None or request.id != self._request.id)
        self._request, self._is_awaited = request, is_awaited
        self.place()
        if is_new and request is not None:
            self._drafts = [AnswerDraft.from_question(question) for question in request.questions]
            self.restart_grace()
            self._is_sent = False
            self._show_question(0)
        self.render_bar()
        return is_new

    def place(self, *, is_elsewhere: bool | None = None) -> None:
        """Show the bar while a question is open, unless another part of the screen shows it; None: as before."""
        self._is_elsewhere = self._is_elsewhere if is_elsewhere is None else is_elsewhere
        self.display = self._request is not None and not self._is_elsewhere

    @property
    def question(self) -> Question | None:
        request = self._request
        return request.questions[self._index] if request and self._index < len(request.questions) else None

    @property
    def has_several(self) -> bool:
        return len(self._drafts) > 1

    @property
    def has_text(self) -> bool:
        """True if an answer in the user's own words has been begun."""
        return self.is_mounted and bool(self._free_text.value)

    @property
    def _draft(self) -> AnswerDraft:
        return self._drafts[self._index]

    @property
    def _free_text(self) -> FreeTextInput:
        return self.query_one(FreeTextInput)

    # Drawing.

    @on(events.Resize)
    def render_bar(self) -> None:
        """Lay out the bar for its current width."""
        question, request = self.question, self._request
        if question is None or request is None or not self.is_mounted:
            return
        width = max(self.size.width - 3, 12)
        is_folded = not self._is_awaited and not self.has_focus_within
        if is_folded != self.is_folded:
            self.is_folded = is_folded
            self.post_message(messages.FoldChanged())
        for child in self.children:
            child.display = not is_folded or child.id == "question-keys"
        strip = self.query_one(QuestionTabs)
        strip.display = self.has_several and not is_folded
        pieces, strip.spans = render_tabs(request, self._drafts, self._index, width)
        strip.update(Content.assemble(*pieces))
        self.query_one(QuestionBody).show(render_body(question, self._draft, request.title, width))
        keys = self._render_folded(request, width) if is_folded else render_hints(self._list_hints(question), width)
        self.query_one("#question-keys", Static).update(Content.assemble(*keys))

    def _render_folded(self, request: QuestionAsked, width: int) -> list[Piece]:
        key = format_first_key("app.answer", get_keymap(self.app))
        suffix = f" (+{len(request.questions) - 1})" if self.has_several else ""
        room = max(width - len(key) - len(suffix) - 14, 10)
        text = fit_line(request.questions[0].text, room)
        return [("? ", "$warning"), (f"{text}{suffix}  ", ""), (key, "bold $accent"), (" answer", MUTED)]

    def _list_hints(self, question: Question) -> list[tuple[str, str]]:
        keymap, count = get_keymap(self.app), len(question.options)
        hints = (
            (True, format_first_key("question.accept", keymap), "answer"),
            (question.allow_multiple, format_first_key("question.tick", keymap), "mark"),
            (count > 1, f"1–{count}", ""),
            (self.has_several, format_first_key("question.next", keymap), "next question"),
            (True, format_first_key("question.leave", keymap), "later"),
            (True, format_first_key("question.dismiss", keymap), "decide without me"),
        )
        return [(key, words) for is_shown, key, words in hints if is_shown]

    @on(events.Focus)
    @on(events.Blur)
    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _on_focus_moved(self, event: events.Event) -> None:
        self._is_writing = self._is_writing and not isinstance(event, events.Focus)
        self.call_after_refresh(self.render_bar)

    # Going about.

    def _show_question(self, index: int) -> None:
        self._index = index
        if self.is_mounted:
            self._free_text.value = self._draft.text
            self.render_bar()
            self.query_one(QuestionBody).scroll_home(animate=False)

    @on(QuestionTabs.TabClicked)
    def _on_tab_clicked(self, event: QuestionTabs.TabClicked) -> None:
        event.stop()
        self.focus()
        self._show_question(event.at)

    def action_switch_question(self, step: int) -> None:
        if not self.has_several:
            raise SkipAction
        self.focus()
        self._show_question((self._index + step) % len(self._drafts))

    def action_move(self, step: int) -> None:
        """Move to another option; the last one is the free text."""
        question = self.question
        if question is None:
            return
        count = len(question.options)
        self._draft.marked = (self._draft.marked + step) % (count + 1)
        if self._draft.marked == count:
            self._free_text.focus()
        elif self._free_text.has_focus:
            self.focus()
        self.render_bar()
        self.query_one(QuestionBody).reveal_option(self._draft.marked)

    def action_page(self, step: int) -> None:
        rows = self.query_one(QuestionBody)
        rows.scroll_relative(y=step * max(rows.size.height - 1, 1), animate=False)

    def action_postpone_question(self) -> None:
        if self._free_text.has_focus and self.question is not None and self.question.options:
            self._draft.marked = min(self._draft.marked, len(self.question.options) - 1)
            self.focus()
            self.render_bar()
            return
        self.post_message(messages.Postponed())

    # Answering.

    @property
    def _can_answer(self) -> bool:
        return self.question is not None and not self._is_sent and self.can_take_answer()

    def classify_key(self, event: events.Key) -> KeyKind:
        """Return "command" for a digit that takes an option, else "none"."""
        return "command" if self._parse_digit(event.character) else "none"

    def _parse_digit(self, character: str | None) -> int:
        """Return the number of the option for a digit, 0 = none."""
        question = self.question
        if question is None or not character or not (character.isdigit() and character.isascii()):
            return 0
        return int(character) if int(character) <= len(question.options) else 0

    def take_text(self, text: str) -> None:
        """Start a free-text answer with `text`."""
        if self.question is not None:
            self._is_writing = True
            self._draft.marked = len(self.question.options)
            self._free_text.focus()
            self._free_text.insert_text_at_cursor(text)

    def on_key(self, event: events.Key) -> None:
        """A digit chooses an option; other printable keys begin a free-text answer or a command."""
        question, character = self.question, event.character
        if question is None or not character or not event.is_printable or self._free_text.has_focus:
            return
        if self._is_writing:
            self._free_text.insert_text_at_cursor(character)
        elif number := self._parse_digit(character):
            self._choose_option(number - 1)
        elif character == "!":
            self.post_message(messages.TextRedirected(character))
        elif not character.isspace():
            self.take_text(character)
        else:
            return
        event.stop()

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self._free_text.focus()
        self._free_text._on_paste(event)

    @on(QuestionBody.OptionClicked)
    def _on_option_clicked(self, event: QuestionBody.OptionClicked) -> None:
        event.stop()
        self.focus()
        if event.item == TAKE_TICKED:
            self.action_accept_option()
        else:
            self._choose_option(event.item)

    def _choose_option(self, item: int) -> None:
        """Choose an option by index; where several may hold, it is only ticked."""
        question = self.question
        if question is None or not self._can_answer:
            return
        self._draft.marked = item
        if question.allow_multiple:
            self._draft.ticked ^= {question.options[item].id}
            self.render_bar()
        else:
            self.action_accept_option()

    def action_tick(self) -> None:
        question = self.question
        if question is None or not question.allow_multiple or self._draft.marked >= len(question.options):
            raise SkipAction
        self._choose_option(self._draft.marked)

    def action_accept_option(self) -> None:
        """Answer with the marked option, or with all ticked ones, and the free text."""
        question = self.question
        if question is None or not self._can_answer:
            return
        choice, rows = self._draft, self.query_one(QuestionBody)
        if self._is_writing or choice.marked >= len(question.options):
            self.answer_with_text(self._free_text.value)
        elif not rows.is_visible(choice.marked):
            self.render_bar()
            rows.reveal_option(choice.marked)
        else:
            option_ids = [option.id for option in question.options if option.id in choice.ticked]
            options, text = tuple(option_ids or [question.options[choice.marked].id]), self._free_text.value.strip()
            self._record_answer(QuestionAnswer(question=question.id, options=options, text=text))

    @on(Input.Changed)
    def _on_text_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self._drafts:
            self._draft.text = event.value

    @on(Input.Submitted)
    def _on_text_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self._can_answer:
            self.answer_with_text(event.value)

    @on(FreeTextInput.LinesPasted)
    def _on_long_paste(self, event: FreeTextInput.LinesPasted) -> None:
        event.stop()
        self._free_text.value = ""
        self.post_message(messages.TextRedirected(event.text))

    def answer_with_text(self, text: str) -> None:
        """Answer the current question with free text, if there is any."""
        if (question := self.question) is not None and text.strip():
            self._record_answer(QuestionAnswer(question=question.id, text=text))

    def _record_answer(self, answer: QuestionAnswer) -> None:
        assert self._request is not None
        self._draft.answer = answer
        self._is_writing = False
        after = [*range(self._index + 1, len(self._drafts)), *range(self._index)]
        next_index = next((index for index in after if self._drafts[index].answer is None), None)
        if next_index is not None:
            self._show_question(next_index)
            self.focus()
            return
        self._is_sent = True
        answers = tuple(draft.answer for draft in self._drafts if draft.answer is not None)
        self.post_message(messages.AnswersSubmitted(self._request.id, answers))
        self.render_bar()

    def reopen(self) -> None:
        self._is_sent = False

    def action_dismiss_question(self) -> None:
        if self._request is not None and self._can_answer:
            self._is_sent = True
            self.post_message(messages.AnswersSubmitted(self._request.id, ()))
