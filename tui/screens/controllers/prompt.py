"""The prompt's controller: what is submitted, queued, suggested, completed and attached there."""

from __future__ import annotations

from asyncio import Lock
from functools import cached_property
from typing import TYPE_CHECKING, Final, cast

from textual import on

from core.protocol import commands, queries
from core.protocol.events import ModeName
from tui.chat.prompt import Prompt
from tui.chat.transcript import Transcript
from tui.screens.controller import Controller, ScreenContext, in_worker
from tui.screens.controllers.modes import ModeController
from tui.screens.controllers.panes import PaneController
from tui.screens.controllers.questions import QuestionController
from tui.slash_commands import can_run_as_is, describe_unknown_command, find_completions, parse_slash_command

if TYPE_CHECKING:
    from tui.attachments.attach import Attacher
    from tui.chat.above_prompt import CompletionList

ASK_PREFIX: Final = "?"  # where the user types the commands: what goes to the model all the same


class PromptController(Controller):
    """Sends what the user writes: a slash command, a shell command, an answer, or words for the model."""

    def __init__(
        self, context: ScreenContext, modes: ModeController, panes: PaneController, questions: QuestionController
    ) -> None:
        super().__init__(context)
        self._modes, self._panes, self._questions = modes, panes, questions
        self._send_lock = Lock()

    @on(Prompt.Submitted)
    def _handle_text(self, event: Prompt.Submitted) -> None:
        text = event.text
        if (slash := parse_slash_command(text)) is not None:
            command, argument = slash
            self.context.start(self.context.screen.run_action, f"{command.action}({argument!r})", group="slash")
            return
        if problem := describe_unknown_command(text):
            self.context.notify_user(problem, is_error=True)
            self._return_text(text)
            return
        self.context.prompt.add_to_history(text)
        self.context.transcript.follow_end()
        if shell_command := parse_command(text, takes_commands=self.context.state.takes_commands):
            self.context.submit_soon(commands.CommandRun(command=shell_command))
        elif not self._questions.answer_with_text(text):
            self.context.start(self._send, text, group="prompts")

    async def _send(self, text: str) -> None:
        from tui.chat.block_rows import preload_markdown

        self.context.screen.run_worker(preload_markdown, thread=True, group="warm-up", exclusive=True)
        if not self.context.state.session_id:
            self._modes.show("starting… your prompt is sent when the engine is ready")
        async with self._send_lock:  # what was typed first is sent first
            reply = await self._submit(text)
        if isinstance(reply, commands.Reject):
            self.context.notify_user(reply.message, reply.hint, is_error=True)
            self._return_text(text)

    async def _submit(self, text: str) -> commands.Reply:
        """Submit a message to the running turn, else a prompt; which of them it is may change on the way."""
        state, submit = self.context.state, self.context.bridge.submit
        prompt = parse_prompt(text, self._panes.open_files, takes_commands=state.takes_commands)
        steer = commands.TurnSteer(text=text)
        reply = await submit(steer if state.is_running else prompt)
        for _ in range(2):
            match reply:
                case commands.Reject(code="turn_running"):
                    reply = await submit(steer)
                case commands.Reject(code="no_turn" | "turn_stopping"):
                    reply = await submit(prompt)
                case _:
                    break
        return reply

    @in_worker("history")
    async def load_history(self) -> None:
        """Let the prompt offer the prompts of earlier sessions."""
        answer = await self.context.query(queries.PromptHistoryQuery(), queries.PromptHistoryAnswer)
        if answer is not None:
            self.context.prompt.set_history(answer.prompts)

    # Messages that are not sent yet

    def _return_text(self, text: str) -> None:
        """Put a text that could not be sent back into the input; above it, if another was begun there."""
        self.context.state.steering.returned.append((text, self.context.state.seq))
        self.show_queue()

    @in_worker("queue")
    async def show_queue(self) -> None:
        """Show the messages that are not sent yet; returned ones go back into the prompt."""
        await self.context.bridge.wait_until_caught_up()
        self.attacher.deliver_labels()
        prompt, state = self.context.prompt, self.context.state
        steering = state.steering
        if state.draft and not prompt.text:
            prompt.set_text(state.draft)
        if steering.returned and not prompt.text:
            prompt.restore_text(steering.take_returned())
        prompt.has_queue = bool(steering.returned or state.pending_steers)
        if prompt.has_queue or self.context.find_bar("queued"):
            from tui.chat.above_prompt import QueuedMessages

            bar = await self.context.ensure_bar(QueuedMessages, "queued")
            bar.show([text for text, _ in steering.returned], list(state.pending_steers.values()))

    @on(Prompt.RecallRequested)
    def _recall_message(self) -> None:
        if text := self.context.state.steering.take_returned():
            self.context.prompt.restore_text(text)
            self.show_queue()
        else:
            self.context.submit_soon(commands.TurnUnsteer())

    @on(Prompt.Changed)
    def _note_typing(self, event: Prompt.Changed) -> None:
        if event.text_area.text:  # it is empty when something was sent, whose answer must not wait
            self.context.bridge.note_typing()

    # The suggestion

    @on(Prompt.SuggestionRequested)
    def _take_suggestion(self) -> None:
        suggestion = self.context.state.suggestion
        if suggestion and not self.context.state.is_running:
            self._send_suggestion(suggestion.text, suggestion.mode)

    @in_worker("prompts", exclusive=False)
    async def _send_suggestion(self, text: str, mode: ModeName) -> None:
        if mode == self.context.mode or await self.context.submit(commands.ModeSet(mode=mode)):
            await self._send(text)

    # Completion

    @on(Prompt.CompletionRequested)
    @in_worker("completion")
    async def _complete(self, event: Prompt.CompletionRequested) -> None:
        if not event.kind and not self.context.find_bar("completion"):
            return
        from tui.chat.above_prompt import CompletionList

        found: list[tuple[str, str]] = []
        if event.kind == "/":
            found = find_completions(event.pattern)
        elif event.kind == "@":
            question = queries.FindQuery(pattern=event.pattern, limit=12, directories=True)
            answer = await self.context.query(question, queries.FindAnswer)
            found = [(path, "") for path in answer.paths] if answer else []
        (await self.context.ensure_bar(CompletionList, "completion")).show(event.kind, found)
        self.context.prompt.is_completing = bool(found)

    @on(Prompt.CompletionKey)
    def _handle_completion_key(self, event: Prompt.CompletionKey) -> None:
        prompt = self.context.prompt
        completion = cast("CompletionList", self.context.find_bar("completion"))
        match event.action:
            case "next":
                completion.action_cursor_down()
            case "previous":
                completion.action_cursor_up()
            case "accept" | "send" if completion.selected_word is not None:
                is_whole = completion.kind == "/" and can_run_as_is(prompt.text, completion.selected_word)
                prompt.complete(completion.selected_word)
                self._close_completion(completion)
                if is_whole and event.action == "send":
                    prompt.submit()
            case _:
                self._close_completion(completion)

    def _close_completion(self, completion: CompletionList) -> None:
        self.context.prompt.is_completing = False
        completion.display = False

    # Attachments

    @cached_property
    def attacher(self) -> Attacher:
        """Sends pictures and PDFs to the engine; made when it is first needed."""
        from tui.attachments.attach import Attacher

        return Attacher(self.context)

    @on(Prompt.AttachRequested)
    def _attach(self, event: Prompt.AttachRequested) -> None:
        if event.paths:
            self.attacher.attach_files(event.paths)
        else:
            self.attacher.attach_clipboard(is_asked=event.asked)

    @on(Prompt.LabelClicked)
    def _show_labelled(self, event: Prompt.LabelClicked) -> None:
        if (attachment := self.context.state.attachments.get(event.label)) is not None:
            self.attacher.show_pictures((attachment,))

    @on(Transcript.AttachmentsRequested)
    def _show_attachments(self, event: Transcript.AttachmentsRequested) -> None:
        self.attacher.show_pictures(event.shown)


def parse_command(text: str, *, takes_commands: bool) -> str:
    """Return the command that a text is (`!…`, or anything where the user types the commands), "" = it is none."""
    if text.startswith("!"):
        return text[1:].strip()
    return "" if not takes_commands or text.startswith(ASK_PREFIX) else text.strip()


def parse_prompt(text: str, open_files: tuple[str, ...], *, takes_commands: bool) -> commands.TurnSubmit:
    """Build the prompt that a text is (`?…` where the user types the commands)."""
    anyway = takes_commands and text.startswith(ASK_PREFIX) and bool(text[1:].strip())
    return commands.TurnSubmit(text=text[1:].strip() if anyway else text, open_files=open_files, anyway=anyway)
