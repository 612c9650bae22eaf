"""The prompt's controller: what is submitted, queued, suggested, completed and attached there."""

from __future__ import annotations

import re
from asyncio import Lock
from functools import cached_property
from typing import TYPE_CHECKING, Final, cast

from msgspec.structs import replace
from textual import on

from core.protocol import commands, queries
from core.protocol.events import ModeName
from tui.chat.context_chips import ContextChips
from tui.chat.prompt import Prompt
from tui.chat.transcript import Transcript
from tui.files.messages import MentionRequested
from tui.keymap import format_first_key, get_keymap
from tui.screens.controller import Controller, ScreenContext, in_worker
from tui.screens.controllers.choices.modes import ModeController
from tui.screens.controllers.panes import PaneController
from tui.screens.controllers.questions import QuestionController
from tui.screens.dialogs.pages import build_machine_dialog
from tui.slash_commands import can_run_as_is, describe_unknown_command, find_completions, is_called, parse_slash_command

if TYPE_CHECKING:
    from textual.timer import Timer

    from tui.attachments.attach import Attacher
    from tui.chat.above_prompt import CompletionList

Spans = tuple[tuple[int, int], ...]
CHIPS_WAIT: Final = 0.12  # seconds without a letter after which the engine is asked what goes with the prompt
BACKGROUND_PREFIX: Final = "&"
MACHINE_PREFIX: Final = "!!"
ASK_PREFIX: Final = "?"  # where the user types the commands: what goes to the model all the same


class PromptController(Controller):
    """Sends what the user writes: a slash command, a shell command, an answer, or words for the model."""

    def __init__(
        self, context: ScreenContext, modes: ModeController, panes: PaneController, questions: QuestionController
    ) -> None:
        super().__init__(context)
        self._modes, self._panes, self._questions = modes, panes, questions
        self._send_lock = Lock()
        self._awaited_key = ""  # what was struck for a completion that is being looked for
        self.chips = ChipRow(context)
        self._own_commands: tuple[queries.PromptCommand, ...] = ()  # of the user's, as they were when "/" was typed

    @on(Prompt.Submitted)
    def _handle_text(self, event: Prompt.Submitted) -> None:
        text = event.text
        if (slash := parse_slash_command(text)) is not None:
            command, argument = slash
            self.context.start(self.context.screen.run_action, f"{command.action}({argument!r})", group="slash")
            return
        if problem := describe_unknown_command(text):
            self.context.start(self._send_called, event, problem, group="prompts")
        else:
            self._take_text(event)

    async def _send_called(self, event: Prompt.Submitted, problem: str) -> None:
        """Send a prompt that calls a command of the user's own; what calls nothing goes back into the input."""
        await self._load_own_commands()
        if is_called(event.text, [each.name for each in self._own_commands]):
            self._take_text(event)
        else:
            self.context.notify_user(problem, is_error=True)
            self.return_text(event.text)

    async def _load_own_commands(self) -> None:
        found = await self.context.query(queries.CommandsQuery(), queries.CommandsAnswer)
        self._own_commands = found.commands if found else ()

    def _take_text(self, event: Prompt.Submitted) -> None:
        text = event.text
        self.context.prompt.add_to_history(text)
        self.context.transcript.follow_end()
        if (task := text.removeprefix(BACKGROUND_PREFIX).strip()) != text.strip() and task:
            self.context.submit_soon(commands.BackgroundStart(text=task))
        elif text.startswith(MACHINE_PREFIX) and (machine_command := text.removeprefix(MACHINE_PREFIX).strip()):
            self._ask_about_machine(text, machine_command)
        elif shell_command := parse_command(text, takes_commands=self.context.state.takes_commands):
            self.context.submit_soon(commands.CommandRun(command=shell_command))
        elif not self._questions.answer_with_text(text):
            self.context.start(self._send, text, event.pasted, self.chips.take_excluded(), group="prompts")

    def _ask_about_machine(self, text: str, command: str) -> None:
        """Run a command on the user's machine after a yes; without one, it is in the prompt again."""
        run, context = commands.CommandRun(command=command, on_machine=True), self.context
        dialog = build_machine_dialog(command)
        context.show(dialog, lambda is_agreed: context.submit_soon(run) if is_agreed else self.return_text(text))

    def action_write_instructions(self, wish: str = "") -> None:
        """Let the agent write the project's AGENTS.md, in a turn of its own."""
        text = f"/init {wish}".strip()
        self.context.prompt.add_to_history(text)
        self.context.transcript.follow_end()
        self.context.submit_soon(commands.TurnSubmit(text=text, anyway=True))

    def action_mention_page(self, address: str = "") -> None:
        """Mention a page of the web in the prompt, which is not sent yet."""
        address = address.removeprefix("@")
        if not address:
            self.context.notify_user("Write the address behind it: /fetch https://example.org/page", is_error=True)
            return
        found = address if "://" in address else f"https://{address}"
        self.context.focus_prompt()
        self.context.prompt.insert_apart(f"@{found}")

    async def _send(self, text: str, pasted: Spans = (), excluded: tuple[str, ...] = ()) -> None:
        from tui.chat.block_rows import preload_markdown

        self.context.screen.run_worker(preload_markdown, thread=True, group="warm-up", exclusive=True)
        if not self.context.state.session_id:
            self._modes.show("starting… your prompt is sent when the engine is ready")
        async with self._send_lock:  # what was typed first is sent first
            reply = await self._submit(text, pasted, excluded)
        if isinstance(reply, commands.Reject):
            self.chips.restore(excluded)
            self.context.notify_user(reply.message, f"{reply.hint} {self._explain_chip(reply)}".strip(), is_error=True)
            self.return_text(text)

    def _explain_chip(self, reply: commands.Reject) -> str:
        """Return how a mention that names nothing can be sent all the same, "" = that is not what was refused."""
        key = format_first_key("prompt.context", get_keymap(self.context.screen.app))
        return f"Or remove its chip: {key} goes there." if reply.code == "mention_unknown" else ""

    async def _submit(self, text: str, pasted: Spans, excluded: tuple[str, ...]) -> commands.Reply:
        """Submit a message to the running turn, else a prompt; which of them it is may change on the way."""
        state, submit = self.context.state, self.context.bridge.submit
        panes = self._panes
        prompt = parse_prompt(text, panes.open_files, viewing=panes.viewing, takes_commands=state.takes_commands)
        shift = text.index(prompt.text)
        moved = tuple((start - shift, end - shift) for start, end in pasted)
        prompt = replace(prompt, pasted=moved, excluded=excluded)
        steer = commands.TurnSteer(text=text, pasted=pasted, excluded=excluded)
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

    def return_text(self, text: str) -> None:
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
        self.chips.refresh_soon()

    @on(Prompt.ContextRequested)
    def _focus_chips(self) -> None:
        self.chips.focus()

    @on(ContextChips.Removed)
    def _remove_chip(self, event: ContextChips.Removed) -> None:
        self.chips.remove(event.key)

    @on(ContextChips.Left)
    def _leave_chips(self, event: ContextChips.Left) -> None:
        self.context.focus_prompt()
        if event.text:
            self.context.prompt.insert(event.text)

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
            if len(event.pattern) <= 1 or not self._own_commands:
                await self._load_own_commands()
            found = find_completions(event.pattern, self._own_commands)
        elif event.kind == "@":
            question = queries.CompletionQuery(pattern=event.pattern)
            answer = await self.context.query(question, queries.CompletionAnswer)
            found = [(each.word, each.note) for each in answer.completions] if answer else []
        (await self.context.ensure_bar(CompletionList, "completion")).show(event.kind, event.pattern, found)
        awaited, self._awaited_key = self._awaited_key, ""
        self.context.prompt.is_completing = bool(found)
        if awaited:
            self._handle_completion_key(Prompt.CompletionKey(awaited))

    @on(Prompt.CompletionKey)
    def _handle_completion_key(self, event: Prompt.CompletionKey) -> None:
        prompt = self.context.prompt
        completion = cast("CompletionList", self.context.find_bar("completion"))
        match event.action:
            case "next":
                completion.action_cursor_down()
            case "previous":
                completion.action_cursor_up()
            case "accept" | "send" if completion.pattern != prompt.completed_pattern:
                self._awaited_key = event.action  # the list is that of what stood there before the last letters
            case "send" if completion.kind == "@" and completion.selected_word in {None, prompt.completed_pattern}:
                self._close_completion(completion)
                prompt.submit()
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
        self.chips.refresh_soon()

    # Mentions

    @on(MentionRequested)
    def _insert_mention(self, event: MentionRequested) -> None:
        self._panes.uncover_prompt()
        self.context.focus_prompt()
        self.context.prompt.insert_apart(format_mention(event.path, event.start, event.end))

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


class ChipRow:
    """Everything that goes with the prompt, as the engine finds it a moment after the last letter, without what the
    user has removed; that stays away until the prompt is sent or emptied."""

    def __init__(self, context: ScreenContext) -> None:
        self._context = context
        self._removed: set[str] = set()
        self._found = queries.PromptContextAnswer()
        self._timer: Timer | None = None

    def refresh_soon(self) -> None:
        """Ask the engine when nothing was typed for a moment; an empty prompt has no chips at once."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        if not self._context.prompt.text.strip():
            self._removed.clear()
            self._show(queries.PromptContextAnswer())
        elif self._context.state.session_id:
            self._timer = self._context.screen.set_timer(CHIPS_WAIT, self._start)

    def _start(self) -> None:
        self._timer = None
        self._context.start(self._ask, group="chips", exclusive=True)

    async def _ask(self) -> None:
        prompt, state = self._context.prompt, self._context.state
        text = prompt.settled_text
        if text.startswith(("/", "!")) or (state.takes_commands and not text.startswith(ASK_PREFIX)):
            text = ""
        found = queries.PromptContextAnswer()
        if text.strip():
            question = queries.PromptContextQuery(text=text)
            found = await self._context.query(question, queries.PromptContextAnswer) or found
        if prompt.text.strip():
            if found.items or found.problems:
                await self._context.ensure_bar(ContextChips, "context")
            self._show(found)

    def _show(self, found: queries.PromptContextAnswer) -> None:
        self._found = found
        if isinstance(row := self._context.find_bar("context"), ContextChips):
            items = [each for each in found.items if each.key not in self._removed]
            row.show(items, [each for each in found.problems if each.key not in self._removed])

    def focus(self) -> None:
        """Focus the row, if there is one."""
        if isinstance(row := self._context.find_bar("context"), ContextChips) and row.display:
            self._context.screen.set_focus(row)

    def remove(self, key: str) -> None:
        """Leave a chip out of the prompt; behind the last one, the prompt has the focus again."""
        self._removed.add(key)
        self._show(self._found)

    def take_excluded(self) -> tuple[str, ...]:
        """Return the keys of what was removed, for the prompt that is being sent."""
        taken = tuple(sorted(self._removed))
        self._removed.clear()
        return taken

    def restore(self, excluded: tuple[str, ...]) -> None:
        """Take over what was removed from a prompt that is given back."""
        self._removed.update(excluded)


def format_mention(path: str, start: int = 0, end: int = 0) -> str:
    """Return what mentions a file, or its lines from `start` to `end`, in a prompt."""
    lines = (f":{start}" if start == end else f":{start}-{end}") if start else ""
    return f'@"{path}{lines}"' if re.search(r"[^\w./+~-]", path) else f"@{path}{lines}"


def parse_command(text: str, *, takes_commands: bool) -> str:
    """Return the command that a text is (`!…`, or anything where the user types the commands), "" = it is none."""
    if text.startswith("!"):
        return text[1:].strip()
    return "" if not takes_commands or text.startswith(ASK_PREFIX) else text.strip()


def parse_prompt(
    text: str, open_files: tuple[str, ...], *, viewing: commands.Viewing | None, takes_commands: bool
) -> commands.TurnSubmit:
    """Build the prompt that a text is (`?…` where the user types the commands)."""
    anyway = takes_commands and text.startswith(ASK_PREFIX) and bool(text[1:].strip())
    said = text[1:].strip() if anyway else text
    return commands.TurnSubmit(text=said, open_files=open_files, viewing=viewing, anyway=anyway)
