"""The controller of the prompt: sending it, its context chips, and attachments.

A prompt with a pending attachment is not sent: Enter waits until the engine has answered.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from asyncio import Lock
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace
from textual import on

from core.patterns import compile_lazily
from core.protocol import commands, queries
from core.protocol.events import ModeName
from core.protocol.messages import Attachment
from core.state.goals import USAGE, parse_wish
from core.state.loops import USAGE as LOOP_USAGE
from core.state.loops import list_loops, parse_loop
from tui import clipboard
from tui.chat.context_chips import ContextChips
from tui.chat.prompt import Prompt
from tui.chat.transcript import Transcript
from tui.dialogs.pages import build_machine_dialog
from tui.files.messages import MentionRequested
from tui.keymap import format_first_key, get_keymap, insert_keys
from tui.screens.controller import Controller, ScreenContext, in_worker
from tui.screens.controllers.modes import ModeController
from tui.screens.controllers.panes import PaneController
from tui.screens.controllers.questions import QuestionController
from tui.slash_commands import SlashCommand, describe_unknown_command, is_called, parse_alias, parse_slash_command
from tui.timers import start_timer

if TYPE_CHECKING:
    from textual.timer import Timer

CHIPS_WAIT: Final = 0.12  # seconds after the last letter before the engine is asked for chips
ASK_PREFIX: Final = "?"  # input that still goes to the model under the human policy
ATTACH_TIMEOUT: Final = 20.0  # seconds for the engine to store a file
if TYPE_CHECKING:
    pass
Spans = tuple[tuple[int, int], ...]
BACKGROUND_PREFIX: Final = "&"
MACHINE_PREFIX: Final = "!!"
_NOTE: Final = compile_lazily(r"#(?![#!\d])\s*(?P<note>\S.*)")  # neither a title of Markdown nor the number of a ticket


class ChipRow:
    """The context chips of the prompt, which the engine computes a moment after the last letter, without chips that
    the user removed; these stay removed until the prompt is sent or cleared."""

    def __init__(self, context: ScreenContext) -> None:
        self._context = context
        self._removed: set[str] = set()
        self._context_answer = queries.PromptContextAnswer()
        self._timer: Timer | None = None

    def refresh_soon(self) -> None:
        """Ask the engine after a pause in typing; an empty prompt has no chips immediately."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        if not self._context.prompt.text.strip():
            self._removed.clear()
            self._show(queries.PromptContextAnswer())
        elif self._context.state.session_id:
            self._timer = start_timer(self._context.screen, CHIPS_WAIT, self._start)

    def _start(self) -> None:
        self._timer = None
        self._context.start(self._ask, group="chips", exclusive=True)

    async def _ask(self) -> None:
        prompt, state = self._context.prompt, self._context.state
        text = prompt.settled_text
        if text.startswith(("/", "!")) or (state.takes_commands and not text.startswith(ASK_PREFIX)):
            text = ""
        answer = queries.PromptContextAnswer()
        if text.strip():
            question = queries.PromptContextQuery(text=text)
            answer = await self._context.query(question, queries.PromptContextAnswer) or answer
        if prompt.text.strip():
            if answer.items or answer.problems:
                await self._context.ensure_bar(ContextChips, "context")
            self._show(answer)

    def _show(self, answer: queries.PromptContextAnswer) -> None:
        self._context_answer = answer
        if isinstance(row := self._context.find_bar("context"), ContextChips):
            items = [context_item for context_item in answer.items if context_item.key not in self._removed]
            row.show(items, [problem for problem in answer.problems if problem.key not in self._removed])

    def focus(self) -> None:
        """Focus the row, if there is one."""
        if isinstance(row := self._context.find_bar("context"), ContextChips) and row.display:
            self._context.screen.set_focus(row)

    def remove(self, key: str) -> None:
        """Leave a chip out of the prompt; behind the last one, the prompt has the focus again."""
        self._removed.add(key)
        self._show(self._context_answer)

    def take_excluded(self) -> tuple[str, ...]:
        """Return and reset the keys of removed chips, for the prompt to send."""
        excluded_keys = tuple(sorted(self._removed))
        self._removed.clear()
        return excluded_keys

    def restore(self, excluded_keys: tuple[str, ...]) -> None:
        """Restore the removed chips of a returned prompt."""
        self._removed.update(excluded_keys)


class Attacher:
    """Attaches files and the clipboard for one main screen."""

    def __init__(self, context: ScreenContext) -> None:
        self._context = context
        self._labels: dict[str, asyncio.Future[str]] = {}

    def attach_files(self, paths: Sequence[str]) -> None:
        """Attach files by their absolute paths. The prompt is held."""
        adds = [commands.AttachmentAdd(path=path) for path in paths]
        self._context.start(self._submit_all, adds, group="attaching")

    def attach_clipboard(self, *, is_asked: bool) -> None:
        """Attach the content of the clipboard, while the prompt is on hold. If not `is_asked`, an empty paste is the
        cause, which may mean a picture."""
        self._context.start(self._submit_clipboard, is_asked, group="attaching")

    async def _submit_clipboard(self, is_asked: bool) -> None:
        clipboard_content = await clipboard.read_clipboard(clipboard.find_clipboard_tool())
        adds = [commands.AttachmentAdd(path=path) for path in clipboard_content.paths]
        if clipboard_content.data:
            adds.append(commands.AttachmentAdd(data=clipboard_content.data, name="clipboard"))
        if adds:
            await self._submit_all(adds)
            return
        text = clipboard_content.text or self._context.screen.app.clipboard
        self._context.prompt.release("")
        if text and is_asked:
            self._context.prompt.paste(text)
        elif is_asked or clipboard_content != clipboard.EMPTY_CLIPBOARD:
            self._context.notify_user(clipboard_content.problem, clipboard_content.hint, is_error=True)

    async def _submit_all(self, adds: Sequence[commands.AttachmentAdd]) -> None:
        labels: list[str] = []
        try:
            for add in adds:
                if label := await self._submit_one(add):
                    labels.append(label)
        finally:
            self._context.prompt.release(" ".join(labels), is_whole=len(labels) == len(adds))

    async def _submit_one(self, add: commands.AttachmentAdd) -> str:
        """Submit one attachment. Return its label; "" when it was refused, which is reported."""
        from msgspec.structs import replace

        request = secrets.token_hex(8)
        label: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._labels[request] = label
        try:
            reply = await self._context.bridge.submit(replace(add, request=request))
            if isinstance(reply, commands.Reject):
                self._context.notify_user(reply.message, reply.hint, is_error=True)
                return ""
            async with asyncio.timeout(ATTACH_TIMEOUT):
                return await label
        except TimeoutError:
            self._context.notify_user("The engine did not accept the file.", "Attach it again.", is_error=True)
            return ""
        finally:
            del self._labels[request]

    def deliver_labels(self) -> None:
        """Pass the engine's labels to the waiting attachments."""
        labels = self._context.state.steering.labels
        for request, label in self._labels.items():
            if request in labels and not label.done():
                label.set_result(labels[request])

    def show_pictures(self, attachments: Sequence[Attachment]) -> None:
        from tui.dialogs.picture import PictureDialog

        if attachments:
            self._context.show(PictureDialog(attachments, self._context.bridge.query))


class PromptController(Controller):
    """Sends input of the user: a slash command, a shell command, an answer, or a prompt for the model."""

    def __init__(
        self, context: ScreenContext, modes: ModeController, panes: PaneController, questions: QuestionController
    ) -> None:
        super().__init__(context)
        self._modes, self._panes, self._questions = modes, panes, questions
        self._send_lock = Lock()
        self.chips = ChipRow(context)

    @on(Prompt.Submitted)
    def _handle_text(self, event: Prompt.Submitted) -> None:
        text = event.text
        if (slash := parse_slash_command(text)) is not None:
            self.context.start(self._run_command, *slash, group="slash")
            return
        if (alias := parse_alias(text)) is not None:
            self.context.start(self._run_alias, event, *alias, group="slash")
        elif problem := describe_unknown_command(text):
            self.context.start(self._send_command_prompt, event, problem, group="prompts")
        else:
            self._take_text(event)

    async def _run_command(self, command: SlashCommand, argument: str) -> None:
        """Run a command of the screen; one that needs the engine waits for its session."""
        if not command.is_for_screen:
            self._report_wait("command runs")
            await self.context.bridge.wait_until_caught_up()
        await self.context.screen.run_action(f"{command.action}({argument!r})")

    async def _run_alias(self, event: Prompt.Submitted, command: SlashCommand, argument: str) -> None:
        """Run an alias of another agent's command, unless the user has a command of this name."""
        if not command.is_for_screen and await self._is_user_command(event.text):
            self._take_text(event)
        else:
            await self._run_command(command, argument)

    async def _is_user_command(self, text: str) -> bool:
        await self.context.bridge.wait_until_caught_up()
        answer = await self.context.query(queries.CommandsQuery(), queries.CommandsAnswer)
        return is_called(text, [command.name for command in answer.commands] if answer else [])

    def _report_wait(self, subject: str) -> None:
        if not self.context.state.session_id:
            self._modes.show(f"starting… your {subject} when the engine is ready")

    async def _send_command_prompt(self, event: Prompt.Submitted, problem: str) -> None:
        """Send a prompt that calls a user's command; an unknown one returns to the input."""
        if await self._is_user_command(event.text):
            self._take_text(event)
        else:
            self.context.notify_user(insert_keys(problem, get_keymap(self.context.screen.app)), is_error=True)
            self.return_text(event.text)

    def _take_text(self, event: Prompt.Submitted) -> None:
        text = event.text
        self.context.prompt.past.add(text)
        self.context.transcript.follow_end()
        if note := parse_note(text):
            self.context.start(self._save_note, text, note, group="prompts")
        elif (task := text.removeprefix(BACKGROUND_PREFIX).strip()) != text.strip() and task:
            self.context.submit_soon(commands.BackgroundStart(text=task))
        elif text.startswith(MACHINE_PREFIX) and (machine_command := text.removeprefix(MACHINE_PREFIX).strip()):
            self.context.start(self._confirm_unsandboxed, text, machine_command, group="prompts")
        elif shell_command := parse_command(text, takes_commands=self.context.state.takes_commands):
            self.context.submit_soon(commands.CommandRun(command=shell_command))
        elif not self._questions.answer_with_text(text):
            self.context.start(self._send, text, event.pasted, self.chips.take_excluded(), group="prompts")

    async def _save_note(self, text: str, note: str) -> None:
        """Save a note about the project; a rejected one returns to the prompt."""
        if await self.context.submit(commands.MemoryAdd(text=note)):
            self.context.notify_user("Saved for later sessions.", "/memory lists the notes.")
        else:
            self.return_text(text)

    async def _confirm_unsandboxed(self, text: str, command: str) -> None:
        """Run a command outside the sandbox after confirmation of the command and its directory; otherwise it
        returns to the prompt."""
        await self.context.bridge.wait_until_caught_up()
        run, context = commands.CommandRun(command=command, on_machine=True), self.context
        question = queries.MachinePlaceQuery(command=command)
        answer = await context.query(question, queries.MachinePlaceAnswer, "Couldn't find out where it would run.")
        if answer is None:
            self.return_text(text)
            return
        dialog = build_machine_dialog(command, answer)
        context.show(dialog, lambda is_agreed: context.submit_soon(run) if is_agreed else self.return_text(text))

    def action_write_instructions(self, wish: str = "") -> None:
        """Let the agent write the project's AGENTS.md in a separate turn."""
        text = f"/init {wish}".strip()
        self.context.prompt.past.add(text)
        self.context.transcript.follow_end()
        self.context.submit_soon(commands.TurnSubmit(text=text, anyway=True))

    def action_bisect(self, check: str = "") -> None:
        """Find the tool call that broke the check, the session's own or the argument."""
        text = f"/bisect {check}".strip()
        self.context.prompt.past.add(text)
        self.context.transcript.follow_end()
        self.context.submit_soon(commands.TurnSubmit(text=text, anyway=True))

    def action_set_goal(self, wish: str = "") -> None:
        """Set a goal and start to work on it; `stop` ends it, and without a condition the prompt is prepared."""
        if wish == "stop":
            self.context.submit_soon(commands.GoalStop())
            return
        goal = parse_wish(wish)
        if goal is None:
            self.context.notify_user(USAGE, is_error=bool(wish))
            return
        self.context.prompt.past.add(f"/goal {wish}")
        self.context.transcript.follow_end()
        submit = commands.TurnSubmit(text=goal.condition, anyway=True, goal=goal.condition)
        self.context.submit_soon(replace(submit, check=goal.check, rounds=goal.rounds))

    def action_repeat(self, wish: str = "") -> None:
        """Start a loop; `stop`, perhaps with the name of one, ends loops, and without words they are listed."""
        word, _, name = wish.partition(" ")
        loops = self.context.state.loops
        if word == "stop":
            self.context.submit_soon(commands.LoopStop(id=name.strip()))
        elif (loop := parse_loop(wish)) is not None:
            self.context.prompt.past.add(f"/loop {wish}")
            self.context.transcript.follow_end()
            start = commands.LoopStart(text=loop.prompt, seconds=loop.seconds, runs=loop.runs)
            self.context.submit_soon(replace(start, command=loop.command, pattern=loop.pattern))
        else:
            self.context.notify_user((not wish and list_loops(loops.values())) or LOOP_USAGE, is_error=bool(wish))

    def action_mention_page(self, address: str = "") -> None:
        """Mention a page of the web in the prompt, which is not sent yet."""
        address = address.removeprefix("@")
        if not address:
            self.context.notify_user("Usage: /fetch https://example.org/page", is_error=True)
            return
        url = address if "://" in address else f"https://{address}"
        self.context.focus_prompt()
        self.context.prompt.insert_separated(f"@{url}")

    async def _send(self, text: str, pasted_spans: Spans = (), excluded_keys: tuple[str, ...] = ()) -> None:
        from tui.chat.block_rows import preload_markdown

        self.context.screen.run_worker(preload_markdown, thread=True, group="warm-up", exclusive=True)
        self._report_wait("prompt is sent")
        async with self._send_lock:  # preserves the order of input
            reply = await self._submit(text, pasted_spans, excluded_keys)
        if isinstance(reply, commands.Reject):
            self.chips.restore(excluded_keys)
            self.context.notify_user(reply.message, f"{reply.hint} {self._explain_chip(reply)}".strip(), is_error=True)
            self.return_text(text)

    def _explain_chip(self, reply: commands.Reject) -> str:
        """Explain how to send a prompt with an unknown mention anyway, "" = another reason of the refusal."""
        key = format_first_key("prompt.context", get_keymap(self.context.screen.app))
        return f"Or remove its chip: {key} goes to it." if reply.code == "mention_unknown" else ""

    async def _submit(self, text: str, pasted_spans: Spans, excluded_keys: tuple[str, ...]) -> commands.Reply:
        """Submit a message to the running turn, else a prompt; which of them it is may change on the way."""
        state, submit = self.context.state, self.context.bridge.submit
        panes = self._panes
        prompt = parse_prompt(text, panes.open_files, viewing=panes.viewing, takes_commands=state.takes_commands)
        shift = text.index(prompt.text)
        shifted_spans = tuple((start - shift, end - shift) for start, end in pasted_spans)
        prompt = replace(prompt, pasted=shifted_spans, excluded=excluded_keys)
        steer = commands.TurnSteer(text=text, pasted=pasted_spans, excluded=excluded_keys)
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
        """Load the prompts of earlier sessions into the history."""
        answer = await self.context.query(queries.PromptHistoryQuery(), queries.PromptHistoryAnswer)
        if answer is not None:
            self.context.prompt.past.set(answer.prompts)

    # Messages that are not sent yet

    def return_text(self, text: str) -> None:
        """Return an unsent text to the input, above any text that is there."""
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

    @on(Prompt.HelpRequested)
    def _show_help(self) -> None:
        self.context.start(self.context.screen.run_action, "pages.show_keys", group="slash")

    def action_toggle_vim(self) -> None:
        """Switch Vim's keys in the prompt on or off until the program ends."""
        prompt = self.context.prompt
        prompt.use_keys("vim" if prompt.vim is None else "default")
        message = "Vim keys are on." if prompt.vim is not None else "Vim keys are off."
        self.context.notify_user(message, "Set ui.prompt_keys in config.toml to keep this.")

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

    # Mentions

    @on(MentionRequested)
    def _insert_mention(self, event: MentionRequested) -> None:
        self._panes.uncover_prompt()
        self.context.focus_prompt()
        self.context.prompt.insert_separated(format_mention(event.path, event.start, event.end))

    # Attachments

    @cached_property
    def attacher(self) -> Attacher:
        """The attacher of pictures and PDFs, created on first use."""

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


def format_mention(path: str, start: int = 0, end: int = 0) -> str:
    """Format the mention of a file, or of its lines from `start` to `end`, for a prompt."""
    lines = (f":{start}" if start == end else f":{start}-{end}") if start else ""
    return f'@"{path}{lines}"' if re.search(r"[^\w./+~-]", path) else f"@{path}{lines}"


def parse_note(text: str) -> str:
    """Return the text of a note (`# …`, in one line), "" = not a note."""
    match = _NOTE.fullmatch(text.strip())
    return match["note"] if match else ""


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
    prompt_text = text[1:].strip() if anyway else text
    return commands.TurnSubmit(text=prompt_text, open_files=open_files, viewing=viewing, anyway=anyway)
