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
from tui.bridge import Bridge, Connect, Wish
from tui.keymap import bindings, checked
from tui.screens.actions import MODES
from tui.screens.asking import AskingScreen
from tui.state import Topic
from tui.text import one_line
from tui.typed import command_in, prompt_in
from tui.widgets.greeting import Greeting
from tui.widgets.prompt import ANSWERING, PLACEHOLDERS, READING, STEERING, TYPING, Prompt
from tui.widgets.status import StatusBar
from tui.widgets.transcript import Transcript
from tui.work import begin

if TYPE_CHECKING:
    from tui.screens.panes import Panes
    from tui.widgets.completion import Completion

TOO_SMALL = (
    "agent-tui needs a larger window: 60 columns and 16 rows show all of it. Nothing is lost; what runs goes on."
)


class MainScreen(AskingScreen):
    """One session in one window."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("app")
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (41, "-narrow"), (100, "-wide"), (140, "-broad")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (11, "-low"), (24, "-tall")]  # noqa: RUF012

    def __init__(self, connect: Connect, wish: Wish) -> None:
        super().__init__()
        self.bridge = Bridge(connect, wish, self)
        self._wish = wish
        self._panes: Panes | None = None
        self._note = "starting…"
        self._elsewhere = ""
        self._is_set_up = False
        self._is_shown = False
        self._saying = Lock()

    @property
    def mode(self) -> ModeName:
        return self.state.mode if self.state.session else self._wish.mode

    def compose(self) -> ComposeResult:
        with Horizontal(id="body"), Vertical(id="centre"):
            yield Greeting(id="greeting")
            yield Transcript(id="transcript")
            yield Prompt(id="prompt")
        yield StatusBar(id="status")
        yield Static(Content(TOO_SMALL), id="too-small")

    def on_mount(self) -> None:
        self.add_class(f"-mode-{self._wish.mode}")
        self.set_class(self._wish.resume is None, "-empty")
        self._greet()
        self.query_one(Prompt).focus()
        self.watch_the_focus()
        self.query_one(StatusBar).show(self.state, self._note)
        self.call_after_refresh(self._start)

    def _start(self) -> None:
        begin(self, self.bridge.run, group="engine", exclusive=True)

    @property
    def panes(self) -> Panes:
        """Files and side panes; made when they are first asked for."""
        if self._panes is None:
            from tui.screens.panes import Panes

            self._panes = Panes(self)
        return self._panes

    # What is on screen.

    def uncover(self) -> None:
        if self._panes is not None:
            self._panes.uncover()

    def refuges(self) -> list[Widget]:
        found: list[Widget] = [self.query_one(Prompt)]
        pane = self._panes.shown if self._panes is not None else None
        for above in [pane] if pane is not None else []:
            found += [each for each in above.walk_children(Widget, with_self=True) if each.focusable]
        return [*found, *self.query("FileTree").results(Widget)]

    def comes_to_front(self, widget: Widget) -> bool:
        """In a window that got narrow the pane that is covered gives way, not what is being written or answered."""
        if self.has_class("-tiny") or self.has_class("-flat") or self._panes is None:
            return False
        is_covered = self._panes.is_narrow and (self.has_class("-side") or self.has_class("-files"))
        if not is_covered or self.query_one("#centre") not in widget.ancestors or not widget.display:
            return False
        self.uncover()
        return True

    def laid_out(self) -> None:
        """The status line tells of what waits and is not seen."""
        if self._panes is not None and self._panes.put_away and not self._panes.is_narrow:
            begin(self, self._panes.show_again, group="panes")
        waits = self.waits_unseen()
        self.set_class(waits, "-awaited")
        self.query_one(StatusBar).call_back(waits)

    # What the bridge tells.

    def ready(self) -> None:
        self._note = ""
        self._show_blocks()
        self._show_status()
        begin(self, self._load_history, group="history", exclusive=True)
        begin(self, self._show_queue, group="queue", exclusive=True)
        begin(self, self._look_elsewhere, group="elsewhere", exclusive=True)
        if self._panes is not None or self.query("#approval, #question, #trust"):  # another session may have been shown
            self.changed(frozenset({"ask", "review", "plan", "debug", "files"}))
        if self._wish.pane and not self._is_shown:
            self._is_shown = True
            begin(self, self.panes.show, self._wish.pane, group="panes")
        if self.has_class("-broad"):
            begin(self, self.panes.show_files, group="files", exclusive=True)

    async def _load_history(self) -> None:
        answer = await self.bridge.query(queries.PromptHistoryQuery())
        if isinstance(answer, queries.PromptHistory):
            self.query_one(Prompt).set_history(answer.prompts)

    async def _look_elsewhere(self) -> None:
        answer = await self.bridge.query(queries.SessionsQuery())
        found = answer.sessions if isinstance(answer, queries.Sessions) else ()
        if found:
            from tui.elsewhere import waits_elsewhere

            self._elsewhere = waits_elsewhere(found, self.state.session)
            self._greet()
            await self.bridge.caught_up()
            if self._elsewhere and self.state.blocks:  # else the greeting says it
                self.say(self._elsewhere)

    def changed(self, topics: frozenset[Topic]) -> None:
        if "blocks" in topics:
            self._show_blocks()
        if topics & {"status", "session"}:
            self._show_status()
        if "queue" in topics:
            begin(self, self._show_queue, group="queue", exclusive=True)
        if "ask" in topics:
            begin(self, self._show_asked, group="asked", exclusive=True)
        if topics & {"review", "plan", "debug", "files"}:
            begin(self, self.panes.update, topics, group="panes")

    def trouble(self, message: str, hint: str) -> None:
        self._note = "engine away"
        self._show_status()
        self.say(message, hint, is_error=True)

    def refused(self, message: str, hint: str) -> None:
        self.app.exit(return_code=1, message=f"agent-tui: {one_line(f'{message} {hint}'.strip(), 400)}")

    async def first_run(self, models: queries.Models) -> Wish | None:
        from tui.screens.first_run import first_run

        wish = await first_run(self, models, self._wish)
        if wish is None:
            self.app.exit()
        return wish

    def connected(self) -> None:
        if not self._is_set_up:
            self._is_set_up = True
            begin(self, self._adopt_settings, group="settings", exclusive=True)

    async def _adopt_settings(self) -> None:
        """The user's colours and keys; what is wrong in them is told and the rest is taken."""
        settings = await self.bridge.query(queries.SettingsQuery())
        if not isinstance(settings, queries.ScreenSettings):
            return
        if settings.theme in self.app.available_themes:
            self.app.theme = settings.theme
        elif settings.theme:
            self.say(f"ui.theme: there is no theme {settings.theme!r}.", "/theme lists them.", is_error=True)
        keymap, wrong = checked(settings.keymap)
        for problem in wrong:
            self.say(problem, is_error=True)
        app: Any = self.app
        app.keymap = {**keymap, **app.keymap}
        app.set_keymap(app.keymap)
        self._greet()

    def _greet(self) -> None:
        self.query_one(Greeting).greet(getattr(self.app, "keymap", {}), self._elsewhere)

    # What is shown.

    def _show_blocks(self) -> None:
        self.set_class(not self.state.blocks, "-empty")
        self.query_one(Transcript).show(self.state.blocks)

    def _show_status(self) -> None:
        state = self.state
        mode = self.mode
        for each in MODES:
            self.set_class(each == mode, f"-mode-{each}")
        self.query_one(StatusBar).show(state, self._note)
        prompt = self.query_one(Prompt)
        if self.query_one(Transcript).has_focus:
            prompt.say(READING)
        elif state.awaited:
            prompt.say(ANSWERING)
        else:
            idle = TYPING if state.types_commands else self._suggested() or PLACEHOLDERS[mode]
            prompt.say(STEERING if state.running else idle)

    def _suggested(self) -> str:
        """What enter on the empty prompt says."""
        offer = self.state.suggestion
        if offer is None:
            return ""
        mode = f" in {offer.mode.title()} mode" if offer.mode != self.mode else ""
        return f"{one_line(offer.text, 200)}   enter sends this{mode}"

    async def _show_asked(self) -> None:
        await self.show_asked()
        self._show_status()
        self.laid_out()

    # What the user decides.

    @on(Prompt.Submitted)
    def _submitted(self, event: Prompt.Submitted) -> None:
        from tui.commands import parsed, unknown

        prompt = self.query_one(Prompt)
        if (slash := parsed(event.text)) is not None:
            begin(self, self.run_action, f"{slash[0].action}({slash[1]!r})", group="slash")
            return
        if problem := unknown(event.text):
            self.say(problem, is_error=True)
            self._give_back(event.text)
            return
        prompt.remember(event.text)
        self.query_one(Transcript).follow()
        if command := command_in(event.text, by_hand=self.state.types_commands):
            self.send(commands.CommandRun(command=command))
            return
        if self.answer_awaited(event.text):
            return
        begin(self, self._say_to_model, event.text, group="prompts")

    async def _say_to_model(self, text: str) -> None:
        from tui.widgets.blocks import warm_up

        self.run_worker(warm_up, thread=True, group="warm-up", exclusive=True)
        if not self.state.session:
            self._note = "starting… your prompt is sent when the engine is ready"
            self._show_status()
        async with self._saying:  # what was typed first is said first
            reply = await self._said(text)
        if isinstance(reply, commands.Reject):
            self.say(reply.message, reply.hint, is_error=True)
            self._give_back(text)

    async def _said(self, text: str) -> commands.Reply:
        """A word to the turn that runs, else a prompt; which of them it is may change while it is under way."""
        seen = self._panes.open_files if self._panes else ()
        prompt = prompt_in(text, seen, by_hand=self.state.types_commands)
        steer = commands.TurnSteer(text=text)
        reply = await self.bridge.submit(steer if self.state.running else prompt)
        for _ in range(2):
            match reply:
                case commands.Reject(code="turn_running"):
                    reply = await self.bridge.submit(steer)
                case commands.Reject(code="no_turn" | "turn_stopping"):
                    reply = await self.bridge.submit(prompt)
                case _:
                    break
        return reply

    def _give_back(self, text: str) -> None:
        """What could not be sent stands in the prompt again; above it, if something else was begun there."""
        self.state.said.returned.append((text, self.state.seq))
        begin(self, self._show_queue, group="queue", exclusive=True)

    async def _show_queue(self) -> None:
        """What was said and not sent: what was given back belongs into the prompt."""
        await self.bridge.caught_up()
        self.attaching.arrived()
        prompt, said = self.query_one(Prompt), self.state.said
        if said.draft and not prompt.text:
            prompt.text = said.draft
            prompt.move_cursor(prompt.document.end)
        if said.returned and not prompt.text:
            prompt.give_back(said.take())
        prompt.has_queue = bool(said.returned or said.queued)
        if prompt.has_queue or self.query("#queued"):
            (await self.mounted("queued")).show(said)

    @on(Prompt.TakeBack)
    def _taken_back(self) -> None:
        if said := self.state.said.take():
            self.query_one(Prompt).give_back(said)
            begin(self, self._show_queue, group="queue", exclusive=True)
        else:
            self.send(commands.TurnUnsteer())

    @on(Prompt.Changed)
    def _typed(self, event: Prompt.Changed) -> None:
        if event.text_area.text:  # it is empty when something was sent, whose answer must not wait
            self.bridge.typed()

    @on(Prompt.TakeSuggestion)
    def _suggestion_taken(self) -> None:
        if (offer := self.state.suggestion) and not self.state.running:
            begin(self, self._say_suggested, offer.text, offer.mode, group="prompts")

    async def _say_suggested(self, text: str, mode: ModeName) -> None:
        if mode == self.mode or await self.deliver(commands.ModeSet(mode=mode)):
            await self._say_to_model(text)

    @on(Prompt.Completing)
    def _completing(self, event: Prompt.Completing) -> None:
        begin(self, self._complete, event.kind, event.pattern, group="completion", exclusive=True)

    async def _complete(self, kind: str, pattern: str) -> None:
        if not kind and not self.query("#completion"):
            return
        found: list[tuple[str, str]] = []
        if kind == "/":
            from tui.commands import completions

            found = completions(pattern)
        elif kind == "@":
            answer = await self.bridge.query(queries.FindQuery(pattern=pattern, limit=12, directories=True))
            found = [(path, "") for path in answer.paths] if isinstance(answer, queries.Found) else []
        completion: Completion = await self.mounted("completion")
        completion.offer(kind, found)
        self.query_one(Prompt).completing = bool(found)

    @on(Prompt.CompletionKey)
    def _completion_key(self, event: Prompt.CompletionKey) -> None:
        from tui.commands import is_complete

        prompt = self.query_one(Prompt)
        completion: Any = self.query_one("#completion")
        match event.action:
            case "next":
                completion.action_cursor_down()
            case "previous":
                completion.action_cursor_up()
            case "accept" | "send" if completion.chosen is not None:
                is_whole = completion.kind == "/" and is_complete(prompt.text, completion.chosen)
                prompt.complete(completion.chosen)
                self._close_completion()
                if is_whole and event.action == "send":
                    prompt.submit()
            case _:
                self._close_completion()

    def _close_completion(self) -> None:
        self.query_one(Prompt).completing = False
        self.query_one("#completion").display = False

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def _focus_moved(self, event: events.DescendantFocus | events.DescendantBlur) -> None:
        if isinstance(event.widget, Transcript):
            self._show_status()
        self.laid_out()

    @on(Transcript.Copied)
    def _copied(self, event: Transcript.Copied) -> None:
        self.app.copy_to_clipboard(event.text)
        self.say("Copied.")

    # What the panes ask for: their messages are matched by name, so that no pane is imported before it is needed.

    async def on_file_tree_selected(self, event: Any) -> None:
        """Show a file that was chosen in the tree."""
        await self.panes.preview(event.path)
