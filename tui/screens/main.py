"""The main screen: files, conversation and prompt, side pane, status. It shows what the bridge folds and sends what the
user decides; what a decision means is the engine's business.

Only the conversation, the prompt and the status are there at the first paint; everything else is mounted when needed.
"""

from __future__ import annotations

from asyncio import Lock
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from core.protocol import commands, queries
from core.protocol.events import ModeName
from tui.bridge import Bridge, Connect, SessionRequest
from tui.chat.greeting import Greeting
from tui.chat.prompt import (
    COMMAND_PLACEHOLDER,
    PLACEHOLDERS,
    QUESTION_PLACEHOLDER,
    STEERING_PLACEHOLDER,
    TRANSCRIPT_PLACEHOLDER,
    Prompt,
)
from tui.chat.transcript import Transcript
from tui.keymap import check_keymap, get_bindings
from tui.prompt_syntax import parse_command, parse_prompt
from tui.screens.actions import MODES
from tui.screens.controllers.questions import AskingScreen
from tui.state import Topic
from tui.text import fit_line
from tui.widgets.status_bar import StatusBar
from tui.workers import start_worker

if TYPE_CHECKING:
    from tui.chat.completion import CompletionList
    from tui.screens.controllers.panes import PaneController

TOO_SMALL_NOTICE = (
    "agent-tui needs a larger window: 60 columns and 16 rows show all of it. Nothing is lost; what runs goes on."
)


class MainScreen(AskingScreen):
    """One session in one window."""

    BINDINGS: ClassVar[list[BindingType]] = get_bindings("app")
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (41, "-narrow"), (100, "-wide"), (140, "-broad")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (11, "-low"), (24, "-tall")]  # noqa: RUF012

    def __init__(self, connect: Connect, request: SessionRequest) -> None:
        super().__init__()
        self.bridge = Bridge(connect, request, self)
        self._request = request
        self._panes: PaneController | None = None
        self._status_note = "starting…"
        self._pending_notice = ""
        self._is_set_up = False
        self._is_pane_shown = False
        self._prompt_lock = Lock()

    @property
    def mode(self) -> ModeName:
        return self.state.mode if self.state.session_id else self._request.mode

    def compose(self) -> ComposeResult:
        with Horizontal(id="body"), Vertical(id="centre"):
            yield Greeting(id="greeting")
            yield Transcript(id="transcript")
            yield Prompt(id="prompt")
        yield StatusBar(id="status")
        yield Static(Content(TOO_SMALL_NOTICE), id="too-small")

    def on_mount(self) -> None:
        self.add_class(f"-mode-{self._request.mode}")
        self.set_class(self._request.resume is None, "-empty")
        self._show_greeting()
        self.query_one(Prompt).focus()
        self.watch_focus()
        self.query_one(StatusBar).show(self.state, self._status_note)
        self.call_after_refresh(self._start_engine)

    def _start_engine(self) -> None:
        start_worker(self, self.bridge.run, group="engine", exclusive=True)

    @property
    def panes(self) -> PaneController:
        """Files and side panes; made when they are first asked for."""
        if self._panes is None:
            from tui.screens.controllers.panes import PaneController

            self._panes = PaneController(self)
        return self._panes

    # What is on screen.

    def uncover_prompt(self) -> None:
        if self._panes is not None:
            self._panes.uncover_prompt()

    def list_refuges(self) -> list[Widget]:
        found: list[Widget] = [self.query_one(Prompt)]
        pane = self._panes.current_pane if self._panes is not None else None
        for above in [pane] if pane is not None else []:
            found += [each for each in above.walk_children(Widget, with_self=True) if each.focusable]
        return [*found, *self.query("FileTree").results(Widget)]

    def bring_to_front(self, widget: Widget) -> bool:
        """Hide the pane that covers `widget` in a window that got narrow, if text is written or answered there."""
        if self.has_class("-tiny") or self.has_class("-flat") or self._panes is None:
            return False
        is_covered = self._panes.is_narrow and (self.has_class("-side") or self.has_class("-files"))
        if not is_covered or self.query_one("#centre") not in widget.ancestors or not widget.display:
            return False
        self.uncover_prompt()
        return True

    def handle_layout(self) -> None:
        """Let the status line tell of questions that are not visible."""
        if self._panes is not None and self._panes.hidden_pane and not self._panes.is_narrow:
            start_worker(self, self._panes.restore_hidden_pane, group="panes")
        waits = self.has_hidden_question()
        self.set_class(waits, "-awaited")
        self.query_one(StatusBar).set_calling(waits)

    # What the bridge tells.

    def handle_session_opened(self) -> None:
        self._status_note = ""
        self._show_blocks()
        self._show_status()
        start_worker(self, self._load_history, group="history", exclusive=True)
        start_worker(self, self._show_queue, group="queue", exclusive=True)
        start_worker(self, self._check_other_sessions, group="elsewhere", exclusive=True)
        if self._panes is not None or self.query("#approval, #question, #trust"):  # another session may have been shown
            self.show_changes(frozenset({"ask", "review", "plan", "debug", "files"}))
        if self._request.pane and not self._is_pane_shown:
            self._is_pane_shown = True
            start_worker(self, self.panes.show, self._request.pane, group="panes")
        if self.has_class("-broad"):
            start_worker(self, self.panes.show_files, group="files", exclusive=True)

    async def _load_history(self) -> None:
        answer = await self.bridge.query(queries.PromptHistoryQuery())
        if isinstance(answer, queries.PromptHistoryAnswer):
            self.query_one(Prompt).set_history(answer.prompts)

    async def _check_other_sessions(self) -> None:
        answer = await self.bridge.query(queries.SessionsQuery())
        found = answer.sessions if isinstance(answer, queries.SessionsAnswer) else ()
        if found:
            from tui.pending_notice import format_pending_notice

            self._pending_notice = format_pending_notice(found, self.state.session_id)
            self._show_greeting()
            await self.bridge.wait_until_caught_up()
            if self._pending_notice and self.state.blocks:  # else the greeting says it
                self.notify_user(self._pending_notice)

    def show_changes(self, topics: frozenset[Topic]) -> None:
        if "blocks" in topics:
            self._show_blocks()
        if topics & {"status", "session"}:
            self._show_status()
        if "queue" in topics:
            start_worker(self, self._show_queue, group="queue", exclusive=True)
        if "ask" in topics:
            start_worker(self, self._show_asked, group="asked", exclusive=True)
        if topics & {"review", "plan", "debug", "files"}:
            start_worker(self, self.panes.update, topics, group="panes")

    def report_trouble(self, message: str, hint: str) -> None:
        self._status_note = "engine away"
        self._show_status()
        self.notify_user(message, hint, is_error=True)

    def handle_session_refused(self, message: str, hint: str) -> None:
        self.app.exit(return_code=1, message=f"agent-tui: {fit_line(f'{message} {hint}'.strip(), 400)}")

    async def choose_model(self, models: queries.ModelsAnswer) -> SessionRequest | None:
        from tui.screens.controllers.first_run import run_first_run

        wish = await run_first_run(self, models, self._request)
        if wish is None:
            self.app.exit()
        return wish

    def handle_connected(self) -> None:
        if not self._is_set_up:
            self._is_set_up = True
            start_worker(self, self._adopt_settings, group="settings", exclusive=True)

    async def _adopt_settings(self) -> None:
        """The user's colours and keys; what is wrong in them is told and the rest is taken."""
        settings = await self.bridge.query(queries.SettingsQuery())
        if not isinstance(settings, queries.SettingsAnswer):
            return
        if settings.theme in self.app.available_themes:
            self.app.theme = settings.theme
        elif settings.theme:
            self.notify_user(f"ui.theme: there is no theme {settings.theme!r}.", "/theme lists them.", is_error=True)
        keymap, wrong = check_keymap(settings.keymap)
        for problem in wrong:
            self.notify_user(problem, is_error=True)
        app: Any = self.app
        app.keymap = {**keymap, **app.keymap}
        app.set_keymap(app.keymap)
        self._show_greeting()

    def _show_greeting(self) -> None:
        self.query_one(Greeting).show(getattr(self.app, "keymap", {}), self._pending_notice)

    # What is shown.

    def _show_blocks(self) -> None:
        self.set_class(not self.state.blocks, "-empty")
        self.query_one(Transcript).show(self.state.blocks)

    def _show_status(self) -> None:
        state = self.state
        mode = self.mode
        for each in MODES:
            self.set_class(each == mode, f"-mode-{each}")
        self.query_one(StatusBar).show(state, self._status_note)
        prompt = self.query_one(Prompt)
        if self.query_one(Transcript).has_focus:
            prompt.set_placeholder(TRANSCRIPT_PLACEHOLDER)
        elif state.awaited_question:
            prompt.set_placeholder(QUESTION_PLACEHOLDER)
        else:
            idle = COMMAND_PLACEHOLDER if state.takes_commands else self._format_suggestion() or PLACEHOLDERS[mode]
            prompt.set_placeholder(STEERING_PLACEHOLDER if state.is_running else idle)

    def _format_suggestion(self) -> str:
        """Format the suggestion that Enter on the empty prompt sends."""
        offer = self.state.suggestion
        if offer is None:
            return ""
        mode = f" in {offer.mode.title()} mode" if offer.mode != self.mode else ""
        return f"{fit_line(offer.text, 200)}   enter sends this{mode}"

    async def _show_asked(self) -> None:
        await self.show_questions()
        self._show_status()
        self.handle_layout()

    # What the user decides.

    @on(Prompt.Submitted)
    def _handle_prompt(self, event: Prompt.Submitted) -> None:
        from tui.slash_commands import describe_unknown_command, parse_slash_command

        prompt = self.query_one(Prompt)
        if (slash := parse_slash_command(event.text)) is not None:
            start_worker(self, self.run_action, f"{slash[0].action}({slash[1]!r})", group="slash")
            return
        if problem := describe_unknown_command(event.text):
            self.notify_user(problem, is_error=True)
            self._return_prompt(event.text)
            return
        prompt.add_to_history(event.text)
        self.query_one(Transcript).follow_end()
        if command := parse_command(event.text, types_commands=self.state.takes_commands):
            self.submit_soon(commands.CommandRun(command=command))
            return
        if self.answer_awaited(event.text):
            return
        start_worker(self, self._send_prompt, event.text, group="prompts")

    async def _send_prompt(self, text: str) -> None:
        from tui.chat.block_rows import preload_markdown

        self.run_worker(preload_markdown, thread=True, group="warm-up", exclusive=True)
        if not self.state.session_id:
            self._status_note = "starting… your prompt is sent when the engine is ready"
            self._show_status()
        async with self._prompt_lock:  # what was typed first is said first
            reply = await self._submit_prompt(text)
        if isinstance(reply, commands.Reject):
            self.notify_user(reply.message, reply.hint, is_error=True)
            self._return_prompt(text)

    async def _submit_prompt(self, text: str) -> commands.Reply:
        """Submit a message to the running turn, else a prompt; which of them it is may change on the way."""
        seen = self._panes.open_files if self._panes else ()
        prompt = parse_prompt(text, seen, types_commands=self.state.takes_commands)
        steer = commands.TurnSteer(text=text)
        reply = await self.bridge.submit(steer if self.state.is_running else prompt)
        for _ in range(2):
            match reply:
                case commands.Reject(code="turn_running"):
                    reply = await self.bridge.submit(steer)
                case commands.Reject(code="no_turn" | "turn_stopping"):
                    reply = await self.bridge.submit(prompt)
                case _:
                    break
        return reply

    def _return_prompt(self, text: str) -> None:
        """Put a prompt that could not be sent back into the input; above it, if another was begun there."""
        self.state.steering.returned.append((text, self.state.seq))
        start_worker(self, self._show_queue, group="queue", exclusive=True)

    async def _show_queue(self) -> None:
        """Show the messages that are not sent yet; returned ones go back into the prompt."""
        await self.bridge.wait_until_caught_up()
        self.attachments.deliver_labels()
        prompt, said = self.query_one(Prompt), self.state.steering
        if said.draft and not prompt.text:
            prompt.text = said.draft
            prompt.move_cursor(prompt.document.end)
        if said.returned and not prompt.text:
            prompt.restore_text(said.take_returned())
        prompt.has_queue = bool(said.returned or said.queued)
        if prompt.has_queue or self.query("#queued"):
            (await self.get_or_mount("queued")).show(said)

    @on(Prompt.RecallRequested)
    def _take_back_message(self) -> None:
        if said := self.state.steering.take_returned():
            self.query_one(Prompt).restore_text(said)
            start_worker(self, self._show_queue, group="queue", exclusive=True)
        else:
            self.submit_soon(commands.TurnUnsteer())

    @on(Prompt.Changed)
    def _note_typing(self, event: Prompt.Changed) -> None:
        if event.text_area.text:  # it is empty when something was sent, whose answer must not wait
            self.bridge.note_typing()

    @on(Prompt.SuggestionRequested)
    def _take_suggestion(self) -> None:
        if (offer := self.state.suggestion) and not self.state.is_running:
            start_worker(self, self._send_suggestion, offer.text, offer.mode, group="prompts")

    async def _send_suggestion(self, text: str, mode: ModeName) -> None:
        if mode == self.mode or await self.submit(commands.ModeSet(mode=mode)):
            await self._send_prompt(text)

    @on(Prompt.CompletionRequested)
    def _start_completion(self, event: Prompt.CompletionRequested) -> None:
        start_worker(self, self._complete, event.kind, event.pattern, group="completion", exclusive=True)

    async def _complete(self, kind: str, pattern: str) -> None:
        if not kind and not self.query("#completion"):
            return
        found: list[tuple[str, str]] = []
        if kind == "/":
            from tui.slash_commands import find_completions

            found = find_completions(pattern)
        elif kind == "@":
            answer = await self.bridge.query(queries.FindQuery(pattern=pattern, limit=12, directories=True))
            found = [(path, "") for path in answer.paths] if isinstance(answer, queries.FindAnswer) else []
        completion: CompletionList = await self.get_or_mount("completion")
        completion.show(kind, found)
        self.query_one(Prompt).is_completing = bool(found)

    @on(Prompt.CompletionKey)
    def _handle_completion_key(self, event: Prompt.CompletionKey) -> None:
        from tui.slash_commands import can_run_as_is

        prompt = self.query_one(Prompt)
        completion: Any = self.query_one("#completion")
        match event.action:
            case "next":
                completion.action_cursor_down()
            case "previous":
                completion.action_cursor_up()
            case "accept" | "send" if completion.selected_word is not None:
                is_whole = completion.kind == "/" and can_run_as_is(prompt.text, completion.selected_word)
                prompt.complete(completion.selected_word)
                self._close_completion()
                if is_whole and event.action == "send":
                    prompt.submit()
            case _:
                self._close_completion()

    def _close_completion(self) -> None:
        self.query_one(Prompt).is_completing = False
        self.query_one("#completion").display = False

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _handle_focus_moved(self, event: events.DescendantFocus | events.DescendantBlur) -> None:
        if isinstance(event.widget, Transcript):
            self._show_status()
        self.handle_layout()

    @on(Transcript.Copied)
    def _copy_text(self, event: Transcript.Copied) -> None:
        self.app.copy_to_clipboard(event.text)
        self.notify_user("Copied.")

    # What the panes ask for: their messages are matched by name, so that no pane is imported before it is needed.

    async def on_file_tree_file_selected(self, event: Any) -> None:
        """Show a file that was chosen in the tree."""
        await self.panes.preview_file(event.path)
