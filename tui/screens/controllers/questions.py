"""The controller of approvals, questions and trust, which wait for an answer above the prompt; and of saved rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from textual import on
from textual.widget import Widget

from core.protocol import commands, queries
from tui.ask import messages
from tui.chat.prompt import Prompt
from tui.dialogs.listings.tools import PermissionsDialog
from tui.input.visibility import get_visibility
from tui.screens.controller import Controller, ScreenContext, in_worker
from tui.screens.controllers.panes import PaneController

if TYPE_CHECKING:
    from tui.ask.approval_bar import ApprovalBar
    from tui.ask.question_bar import QuestionBar
    from tui.ask.trust_bar import TrustBar


_TRUST: Final = {"y": True, "n": False}


class QuestionController(Controller):
    """Shows one question at a time, and focuses it if that does not interrupt the user."""

    def __init__(self, context: ScreenContext, panes: PaneController) -> None:
        super().__init__(context)
        self._panes = panes

    @property
    def _approval(self) -> ApprovalBar | None:
        return cast("ApprovalBar | None", self.context.find_bar("approval"))

    @property
    def _question(self) -> QuestionBar | None:
        return cast("QuestionBar | None", self.context.find_bar("question"))

    @property
    def _trust(self) -> TrustBar | None:
        return cast("TrustBar | None", self.context.find_bar("trust"))

    @property
    def _bars(self) -> list[ApprovalBar | QuestionBar]:
        return [bar for bar in (self._approval, self._question) if bar is not None]

    @property
    def is_mounted(self) -> bool:
        """True once any bar has been mounted."""
        return bool(self._bars) or self._trust is not None

    @property
    def has_tabs_focused(self) -> bool:
        """True while the keys for tabs belong to a question with several parts."""
        return self._question is not None and self._question.has_focus_within and self._question.has_several

    def has_hidden_question(self) -> bool:
        """True if a question is open that keys do not reach, or that is invisible."""
        if not self.context.state.approvals and self.context.state.awaited_question is None:
            return False
        asking = [*self._bars, *filter(None, [self._find_card()])]
        return not any(widget.has_focus_within and get_visibility(widget) == "seen" for widget in asking)

    def _find_card(self) -> Widget | None:
        """Return the debug board if its card shows the current question, so that the bar need not."""
        state, side = self.context.state, self._panes.side
        open_question = state.open_question
        if open_question is None or state.approvals or open_question is not state.debug.question or side is None:
            return None
        board = side.get_pane("debug") if side.current == "debug" else None
        return board if board is not None and get_visibility(board) != "hidden" else None

    def place_question(self) -> None:
        """Show the question in the bar, unless a card shows it; called after each layout, because panes open and close.

        A card that appears takes over the focus; an answer in progress stays in the bar.
        """
        bar = self._question
        if bar is None:
            return
        card, had_focus = self._find_card(), bar.has_focus_within
        bar.place(is_elsewhere=card is not None and not bar.has_text)
        if card is not None and had_focus and not bar.display:
            card.focus()

    async def show(self) -> None:
        """Show an approval first, else a question; the prompt gets the focus after the last one."""
        state = self.context.state
        approval = next(iter(state.approvals.values()), None)
        question = state.open_question if approval is None else None
        had_focus = any(bar.has_focus_within for bar in self._bars)
        if approval is not None or self._approval is not None:
            from tui.ask.approval_bar import ApprovalBar

            bar = await self.context.ensure_bar(ApprovalBar, "approval")
            self._focus_bar(bar, is_new=bar.show(approval), had_focus=had_focus)
        if question is not None or self._question is not None:
            from tui.ask.question_bar import QuestionBar

            questions = await self.context.ensure_bar(QuestionBar, "question")
            is_new = questions.show(question, is_awaited=state.awaited_question is not None)
            self.place_question()
            self._focus_bar(self._find_card() or questions, is_new=is_new, had_focus=had_focus)
        if had_focus and approval is None and question is None:
            self.context.focus_prompt()
        await self._show_trust()

    def _focus_bar(self, bar: Widget, *, is_new: bool, had_focus: bool) -> None:
        """Focus the bar from an empty prompt only: users of a pane are notified instead."""
        prompt = self.context.prompt
        is_free = prompt.has_focus and not prompt.text
        if is_new and (had_focus or is_free) and get_visibility(prompt) != "hidden":
            bar.focus()

    def action_focus_question(self) -> None:
        """Focus the open question, and hide a pane that covers it."""
        if (card := self._find_card()) is not None:
            card.focus()
            return
        bar = next((bar for bar in self._bars if bar.display), None)
        if bar is None:
            self.context.notify_user("Nothing to answer.")
            return
        self._panes.uncover_prompt()
        bar.focus()

    # Approvals

    @on(messages.DecisionMade)
    def _answer_approval(self, event: messages.DecisionMade) -> None:
        self.context.submit_soon(commands.ApprovalAnswer(id=event.id, decision=event.decision, pattern=event.pattern))

    @on(messages.PatternChanged)
    @in_worker("pattern")
    async def _preview_pattern(self, event: messages.PatternChanged) -> None:
        question = queries.PatternQuery(pattern=event.pattern, command=event.command)
        answer = await self.context.query(question, queries.PatternAnswer)
        if answer is not None and self._approval is not None:
            self._approval.show_preview(event.pattern, answer)

    # Questions

    def answer_with_text(self, text: str) -> bool:
        """Answer the question of a waiting turn with a text from the prompt. False: there is none."""
        if self.context.state.awaited_question is None or self._question is None:
            return False
        self._question.answer_with_text(text)
        return True

    @on(messages.TextRedirected)
    def _insert_text(self, event: messages.TextRedirected) -> None:
        self.context.focus_prompt()
        self.context.prompt.insert(event.text)

    @on(messages.Postponed)
    def _postpone_question(self) -> None:
        self.context.focus_prompt()

    @on(messages.AnswersSubmitted)
    @in_worker("commands", exclusive=False)
    async def _answer_question(self, event: messages.AnswersSubmitted) -> None:
        is_taken = await self.context.submit(commands.QuestionReply(id=event.id, answers=event.answers))
        if not is_taken and self._question is not None:
            self._question.reopen()

    # Trust

    @on(messages.FoldChanged)  # there is room for another question now, or none any more
    async def _show_trust(self) -> None:
        """Ask about trust until it is answered; other questions come first."""
        state = self.context.state
        is_asked = self._question is not None and self._question.display and not self._question.is_folded
        trust = None if state.approvals or state.awaited_question or is_asked else state.trust_question
        if trust is not None or self._trust is not None:
            from tui.ask.trust_bar import TrustBar

            bar = await self.context.ensure_bar(TrustBar, "trust")
            bar.show(trust)
            self.context.prompt.is_answer = lambda letter: letter in _TRUST and bar.display and bar.can_answer

    @on(Prompt.LetterTyped)
    def _answer_trust(self, event: Prompt.LetterTyped) -> None:
        if self._trust is not None and self._trust.display:
            self.context.submit_soon(commands.TrustSet(trusted=_TRUST[event.letter]))

    def action_answer_trust(self, is_trusted: bool) -> None:
        bar = self._trust
        if bar is None or not bar.display:
            self.context.notify_user("No trust question is open.", "agent-tui permissions lists trusted projects.")
        elif bar.can_answer:
            self.context.submit_soon(commands.TrustSet(trusted=is_trusted))

    # Saved permissions

    def action_show_permissions(self, argument: str = "") -> None:
        """List the saved rules, or remove one of them ("remove ID")."""
        word, _, identity = argument.partition(" ")
        if word == "remove" and identity.strip():
            self._remove_rule(identity.strip())
        else:
            self._show_permissions()

    @in_worker("commands", exclusive=False)
    async def _remove_rule(self, identity: str) -> None:
        if await self.context.submit(commands.PermissionRemove(id=identity)):
            self.context.notify_user("Removed.")

    @in_worker("picker")
    async def _show_permissions(self) -> None:
        problem = "Couldn't list the permissions."
        answer = await self.context.query(queries.PermissionsQuery(), queries.PermissionsAnswer, problem)
        if answer is not None:
            self.context.show(PermissionsDialog(answer, self._take_back))

    async def _take_back(self, identity: str) -> queries.PermissionsAnswer | None:
        await self.context.submit(commands.PermissionRemove(id=identity))
        await self.context.query(queries.IdleQuery(), queries.IdleAnswer)
        return await self.context.query(queries.PermissionsQuery(), queries.PermissionsAnswer)
