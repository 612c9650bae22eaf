"""What waits for the user between conversation and prompt: which bar is up, where the focus goes, what is answered."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from textual import on
from textual.actions import SkipAction
from textual.widget import Widget

from core.protocol import commands
from tui.screens.planning import PlanningScreen
from tui.sight import sight
from tui.widgets.prompt import Prompt
from tui.widgets.transcript import Transcript
from tui.work import begin

if TYPE_CHECKING:
    from tui.attaching.desk import AttachingDesk
    from tui.widgets.approval import ApprovalBar
    from tui.widgets.question import QuestionBar


class AskingScreen(PlanningScreen):
    """The bars' messages are matched by name, so that no bar is imported before it is needed."""

    @cached_property
    def attaching(self) -> AttachingDesk:
        """Where pictures and PDFs go to the prompt."""
        from tui.attaching.desk import AttachingDesk

        return AttachingDesk(self)

    @on(Prompt.Attach)
    def _attach_to_prompt(self, event: Prompt.Attach) -> None:
        if event.paths:
            self.attaching.files(event.paths)
        else:
            self.attaching.clipboard(asked=event.asked)

    @on(Prompt.Look)
    @on(Transcript.Look)
    def _look_at_pictures(self, event: Prompt.Look | Transcript.Look) -> None:
        if isinstance(event, Transcript.Look):
            self.attaching.look(event.shown)
        elif (shown := self.state.said.attached.get(event.label)) is not None:
            self.attaching.look((shown,))

    async def mounted(self, name: str) -> Any:
        """A widget between conversation and prompt, mounted when it is first needed."""
        found = self.query(f"#{name}")
        if found:
            return found.first()
        from tui.widgets import approval, completion, question, queued

        kinds = {
            "approval": approval.ApprovalBar,
            "question": question.QuestionBar,
            "completion": completion.Completion,
            "queued": queued.Queued,
        }
        widget = kinds[name](id=name)
        await self.query_one("#centre").mount(widget, before="#prompt")
        return widget

    async def show_asked(self) -> None:
        """An approval first, else a question; the prompt gets the focus back when nothing is left to answer."""
        state = self.state
        approval = next(iter(state.approvals.values()), None)
        question = state.open_question if approval is None else None
        had_focus = any(bar.has_focus_within for bar in self.query("#approval, #question"))
        if approval is not None or self.query("#approval"):
            bar: ApprovalBar = await self.mounted("approval")
            self._focus_if(bar, is_new=bar.ask(approval), had_focus=had_focus)
        if question is not None or self.query("#question"):
            questions: QuestionBar = await self.mounted("question")
            is_new = questions.ask(question, awaited=state.awaited is not None)
            self._focus_if(questions, is_new=is_new, had_focus=had_focus)
        if had_focus and approval is None and question is None:
            self.focus_prompt()
        await self.show_trust()

    def _focus_if(self, bar: ApprovalBar | QuestionBar, *, is_new: bool, had_focus: bool) -> None:
        """The focus goes to what asks from an empty prompt alone: who works in a pane is told, and goes there."""
        prompt = self.query_one(Prompt)
        is_free = prompt.has_focus and not prompt.text
        if is_new and (had_focus or is_free) and sight(prompt) != "hidden":
            bar.focus()

    def action_focus_question(self) -> None:
        """Go to what waits for an answer; what covers it is put away."""
        bar = next((bar for bar in self.query("#approval, #question") if bar.display), None)
        if bar is None:
            self.say("Nothing waits for an answer.")
            return
        self.uncover()
        bar.focus()

    def waits_unseen(self) -> bool:
        """Whether something waits for an answer that keys do not reach, or that is not on screen."""
        if not self.state.approvals and self.state.awaited is None:
            return False
        return not any(bar.has_focus_within and sight(bar) == "seen" for bar in self.query("#approval, #question"))

    def action_next_mode(self) -> None:
        """The next mode in turn; among the tabs of questions the key is theirs."""
        if any(bar.has_focus_within and bar.has_several for bar in self.query("#question").results(object)):  # type: ignore[attr-defined]
            raise SkipAction
        super().action_next_mode()

    def answer_awaited(self, text: str) -> bool:
        """Answer the question that a turn waits for with what was written in the prompt. False: none does."""
        if self.state.awaited is None or not self.query("#question"):
            return False
        bar: Any = self.query_one("#question")
        bar.answer_freely(text)
        return True

    def on_question_bar_typed(self, event: Any) -> None:
        """A command, or an answer of several lines, is written in the prompt."""
        self.focus_prompt()
        self.query_one(Prompt).insert(event.text)

    async def on_question_bar_folded(self, _: Any) -> None:
        """There is room for another question now, or none any more."""
        await self.show_trust()

    def on_question_bar_left(self, _: Any) -> None:
        """Later: the question stays where it is."""
        self.focus_prompt()

    def on_question_bar_answered(self, event: Any) -> None:
        """The user answered the model's questions, or dismissed them."""
        begin(self, self._answer, event.id, event.answers, group="commands")

    on_debug_board_answered = on_question_bar_answered

    async def _answer(self, identity: str, answers: Any) -> None:
        if not await self.deliver(commands.QuestionReply(id=identity, answers=answers)):
            for bar in self.query("#question").results(Widget):
                bar.take_back()  # type: ignore[attr-defined]
