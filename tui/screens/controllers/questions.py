"""What waits for the user between conversation and prompt: which bar is up, where the focus goes, what is answered."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from textual import on
from textual.actions import SkipAction
from textual.widget import Widget

from core.protocol import commands
from tui.chat.prompt import Prompt
from tui.chat.transcript import Transcript
from tui.input.visibility import get_visibility
from tui.screens.controllers.plan import PlanningScreen
from tui.workers import start_worker

if TYPE_CHECKING:
    from tui.ask.approval_bar import ApprovalBar
    from tui.ask.question_bar import QuestionBar
    from tui.attachments.attach import AttachmentController


class AskingScreen(PlanningScreen):
    """The bars' messages are matched by name, so that no bar is imported before it is needed."""

    @cached_property
    def attachments(self) -> AttachmentController:
        """Where pictures and PDFs go to the prompt."""
        from tui.attachments.attach import AttachmentController

        return AttachmentController(self)

    @on(Prompt.AttachRequested)
    def _attach_to_prompt(self, event: Prompt.AttachRequested) -> None:
        if event.paths:
            self.attachments.attach_files(event.paths)
        else:
            self.attachments.attach_clipboard(is_asked=event.asked)

    @on(Prompt.LabelClicked)
    @on(Transcript.AttachmentsRequested)
    def _look_at_pictures(self, event: Prompt.LabelClicked | Transcript.AttachmentsRequested) -> None:
        if isinstance(event, Transcript.AttachmentsRequested):
            self.attachments.show_pictures(event.shown)
        elif (shown := self.state.steering.attached.get(event.label)) is not None:
            self.attachments.show_pictures((shown,))

    async def get_or_mount(self, name: str) -> Any:
        """Return a widget between conversation and prompt, mounted when it is first needed."""
        found = self.query(f"#{name}")
        if found:
            return found.first()
        from tui.ask import approval_bar as approval
        from tui.ask import question_bar as question
        from tui.chat import completion
        from tui.chat import queued_messages as queued

        kinds = {
            "approval": approval.ApprovalBar,
            "question": question.QuestionBar,
            "completion": completion.CompletionList,
            "queued": queued.QueuedMessages,
        }
        widget = kinds[name](id=name)
        await self.query_one("#centre").mount(widget, before="#prompt")
        return widget

    async def show_questions(self) -> None:
        """Show an approval first, else a question; the prompt gets the focus back when nothing is left to answer."""
        state = self.state
        approval = next(iter(state.approvals.values()), None)
        question = state.open_question if approval is None else None
        had_focus = any(bar.has_focus_within for bar in self.query("#approval, #question"))
        if approval is not None or self.query("#approval"):
            bar: ApprovalBar = await self.get_or_mount("approval")
            self._focus_bar(bar, is_new=bar.show(approval), had_focus=had_focus)
        if question is not None or self.query("#question"):
            questions: QuestionBar = await self.get_or_mount("question")
            is_new = questions.show(question, is_awaited=state.awaited_question is not None)
            self._focus_bar(questions, is_new=is_new, had_focus=had_focus)
        if had_focus and approval is None and question is None:
            self.focus_prompt()
        await self.show_trust()

    def _focus_bar(self, bar: ApprovalBar | QuestionBar, *, is_new: bool, had_focus: bool) -> None:
        """The focus goes to what asks from an empty prompt alone: who works in a pane is told, and goes there."""
        prompt = self.query_one(Prompt)
        is_free = prompt.has_focus and not prompt.text
        if is_new and (had_focus or is_free) and get_visibility(prompt) != "hidden":
            bar.focus()

    def action_focus_question(self) -> None:
        """Focus what waits for an answer; a pane that covers it is hidden."""
        bar = next((bar for bar in self.query("#approval, #question") if bar.display), None)
        if bar is None:
            self.notify_user("Nothing waits for an answer.")
            return
        self.uncover_prompt()
        bar.focus()

    def has_hidden_question(self) -> bool:
        """True if something waits for an answer that keys do not reach, or that is not on screen."""
        if not self.state.approvals and self.state.awaited_question is None:
            return False
        return not any(
            bar.has_focus_within and get_visibility(bar) == "seen" for bar in self.query("#approval, #question")
        )

    def action_next_mode(self) -> None:
        """The next mode in turn; among the tabs of questions the key is theirs."""
        if any(bar.has_focus_within and bar.has_several for bar in self.query("#question").results(object)):  # type: ignore[attr-defined]
            raise SkipAction
        super().action_next_mode()

    def answer_awaited(self, text: str) -> bool:
        """Answer the question that a turn waits for with what was written in the prompt. False: none does."""
        if self.state.awaited_question is None or not self.query("#question"):
            return False
        bar: Any = self.query_one("#question")
        bar.answer_with_text(text)
        return True

    def on_question_bar_text_redirected(self, event: Any) -> None:
        """A command, or an answer of several lines, is written in the prompt."""
        self.focus_prompt()
        self.query_one(Prompt).insert(event.text)

    async def on_question_bar_fold_changed(self, _: Any) -> None:
        """There is room for another question now, or none any more."""
        await self.show_trust()

    def on_question_bar_postponed(self, _: Any) -> None:
        """Later: the question stays where it is."""
        self.focus_prompt()

    def on_question_bar_answers_given(self, event: Any) -> None:
        """The user answered the model's questions, or dismissed them."""
        start_worker(self, self._submit_answers, event.id, event.answers, group="commands")

    on_debug_board_card_answered = on_question_bar_answers_given

    async def _submit_answers(self, identity: str, answers: Any) -> None:
        if not await self.submit(commands.QuestionReply(id=identity, answers=answers)):
            for bar in self.query("#question").results(Widget):
                bar.reopen()  # type: ignore[attr-defined]
