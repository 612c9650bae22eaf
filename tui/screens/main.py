"""The main screen: files, conversation and prompt, side pane, status. It shows the bridge's state; controllers carry
out the user's decisions, whose meaning is up to the engine.

Only the conversation, the prompt and the status bar exist at the first paint; other widgets are mounted when needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from core.protocol import commands, queries
from tui.bridge import Bridge, Connect, SessionRequest
from tui.chat.prompt import Prompt
from tui.chat.transcript import Greeting, Transcript
from tui.current_layout import CurrentLayoutScreen
from tui.keymap import get_bindings, get_keymap
from tui.modes import SCREEN_MODES
from tui.screens.controller import ScreenContext
from tui.state import Topic, ViewState
from tui.terminal.frames import RowCompositor
from tui.text import fit_line
from tui.themes.appearance import is_read_out
from tui.widgets.side_pane import SidePane
from tui.widgets.status_bar import StatusBar

if TYPE_CHECKING:
    from tui.screens.controllers import ControllerSet
    from tui.terminal.early_terminal import EarlyTerminal

TOO_SMALL_NOTICE: Final = (
    "agent-tui needs a larger window: at least 60 columns and 16 rows. Nothing is lost, and work continues."
)

ONE_PANE_WIDTH: Final = 160  # columns up to which a conversation may have all the room
TOASTS_ABOVE_FOOT: Final = 3  # rows below toasts: the status bar, and the keys of a pane


class MainScreen(CurrentLayoutScreen[None]):
    """One session in one window: the widgets, their controllers, and the events of the bridge."""

    BINDINGS = get_bindings("app")
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (41, "-narrow"), (100, "-wide"), (140, "-broad")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (11, "-low"), (24, "-tall")]  # noqa: RUF012
    AUTO_FOCUS = "#prompt"

    def __init__(self, connect: Connect, request: SessionRequest, *, early: EarlyTerminal | None = None) -> None:
        # All at once: adding a class later restyles all widgets.
        classes = f"-mode-{request.mode} -accent-{SCREEN_MODES[request.mode].accent}"
        super().__init__(classes=classes if request.resume is not None else f"{classes} -empty")
        self._compositor = RowCompositor()
        self.bridge = Bridge(connect, request, self)
        self._request = request
        self._early = early
        self._pending_notice = ""
        self._toast_room = (0, 0, 0)  # the first column for toasts, their maximum number, and rows below them
        self._is_set_up = self._is_pane_shown = self._is_place_shown = False
        self.context = ScreenContext(self, self.bridge, request)

    @cached_property
    def controllers(self) -> ControllerSet:
        """The controllers, which act for the user; loaded after the first paint, or when it is first needed."""
        from tui.screens.controllers import ControllerSet

        return ControllerSet(self.context)

    @property
    def state(self) -> ViewState:
        return self.bridge.state

    def compose(self) -> ComposeResult:
        with Horizontal(id="body"), Vertical(id="centre"):
            yield Greeting(id="greeting")
            yield Transcript(id="transcript")
            yield Prompt(id="prompt", placeholder=SCREEN_MODES[self._request.mode].placeholder)
        yield StatusBar(id="status")
        yield Static(Content(TOO_SMALL_NOTICE), id="too-small")

    def on_mount(self) -> None:
        if self._early is not None and (text := self._early.take_text()):
            self.query_one(Prompt).set_text(text)
        self._show_greeting()
        self.query_one(StatusBar).show(self.state, "starting…")
        self.screen_layout_refresh_signal.subscribe(self, self._after_layout, immediate=True)
        self.watch(self.app, "app_focus", self._note_focus, init=False)
        self.call_after_refresh(self._start)

    def _note_focus(self, is_here: bool) -> None:
        if is_here and self._is_loaded:
            self.context.submit_soon(commands.ContextWarm())

    def _start(self) -> None:
        """Start the engine, and load the controllers while its process starts. Early input then has a focused
        widget."""
        if self._early is not None:
            self._early.release_keys()
        self.context.start(self.bridge.run, group="engine", exclusive=True)
        self.call_later(self._load)

    def _load(self) -> None:
        _ = self.controllers
        self._after_layout(None)

    @property
    def _is_loaded(self) -> bool:
        return "controllers" in vars(self)

    def _get_dispatch_methods(self, method_name: str, message: Message) -> Iterable[tuple[type, Any]]:
        """Pass a message on to the controllers, after the screen itself; before they are loaded, events are not."""
        yield from super()._get_dispatch_methods(method_name, message)
        if self._is_loaded or not isinstance(message, events.Event):
            yield from self.controllers.find_handlers(message)

    def note_action(self, action: str) -> None:
        """Note an action that a key or a command is about to run."""
        if self._is_loaded:
            self.controllers.guide.note_action(action)

    # Layout

    def _after_layout(self, _: object) -> None:
        self._place_toasts()
        if self._is_loaded and self.app.screen is self:
            self.controllers.questions.place_question()
            self.controllers.focus.move_hidden_focus()
            self._show_pending_notice()

    def _place_toasts(self) -> None:
        """Keep toasts over the conversation, away from the tabs and names of the panes; where one pane has the whole
        window, over its last rows."""
        centre = self.query_one("#centre").region
        room = (centre.x, centre.width, 0) if centre else (0, self.size.width, TOASTS_ABOVE_FOOT)
        if room != self._toast_room:
            self._toast_room = room
            self.set_class(not centre, "-toasts-below")
            for rack in self.query("ToastRack"):
                rack.styles.width = room[1]
                rack.styles.margin = (0, 0, room[2], room[0])

    @on(events.ScreenSuspend)
    @on(events.ScreenResume)
    def _hide_toasts(self, event: events.ScreenSuspend | events.ScreenResume) -> None:
        """Hide the toasts behind a dialog, which shows the same ones above itself."""
        for rack in self.query("ToastRack"):
            rack.display = isinstance(event, events.ScreenResume)

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    @on(events.MouseUp)
    def _show_pending_notice(self) -> None:
        """Show a pane again that there is room for, and report invisible questions in the status bar."""
        if not self._is_loaded:
            return
        self.controllers.panes.restore_hidden_pane()
        self.controllers.panes.fit_review()
        is_calling = self.controllers.questions.has_hidden_question()
        self.set_class(is_calling, "-awaited")
        self.query_one(StatusBar).set_calling(is_calling)

    def _show_greeting(self) -> None:
        act = self.controllers if self._is_loaded else None  # the first paint does not wait for them
        pending = "" if act is not None and act.sessions.is_home_shown else self._pending_notice
        part_notice = "" if act is None else act.pages.part_notice
        notes = list(filter(None, [pending, part_notice, *self.state.start_notices]))
        self.query_one(Greeting).show(get_keymap(self.app), notes, accepts_at_once=self.state.accepts_at_once)

    # Events of the bridge

    def handle_connected(self) -> None:
        if not self._is_set_up:
            self._is_set_up = True
            self.context.start(self._adopt_settings, group="settings", exclusive=True)

    async def _adopt_settings(self) -> None:
        await self.controllers.pages.adopt_settings()
        if is_read_out(self.app):
            never = 1 << 16  # columns; so that one pane shows at a time
            self.HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (41, "-narrow"), (never, "-wide"), (never, "-broad")]
            self.post_message(events.Resize(self.size, self.app.size))
        self._show_greeting()

    def handle_session_opened(self) -> None:
        self._show_blocks()
        self.controllers.modes.show("")
        self.controllers.prompt.load_history()
        self.controllers.prompt.show_queue()
        self.controllers.prompt.chips.refresh_soon()
        self.context.start(self._check_other_sessions, group="elsewhere", exclusive=True)
        self.controllers.attention.recap_resumption()
        if self.controllers.panes.is_mounted or self.controllers.questions.is_mounted:
            self.show_changes(frozenset({"ask", "review", "plan", "debug", "files", "agents"}))
        if self._request.pane and not self._is_pane_shown:
            self._is_pane_shown = True
            self.context.start(self.controllers.panes.show, self._request.pane, group="panes")
        if self._request.place and not self._is_place_shown:
            self._is_place_shown = True
            self.context.start(self.controllers.sessions.show_place, self._request.place, group="place")
        if self.has_class("-broad"):
            self.context.start(self.controllers.panes.show_files, group="files", exclusive=True)

    async def _check_other_sessions(self) -> None:
        others = await self.controllers.sessions.list_sessions()
        self._pending_notice = self.controllers.sessions.describe_pending(others)
        await self.controllers.sessions.show_home(others)
        self._show_greeting()
        await self.controllers.search.load_status()
        self.controllers.modes.show()
        self.controllers.guide.load()
        if self._pending_notice and self.state.has_begun:  # otherwise the greeting shows it
            self.context.notify_user(self._pending_notice)

    def show_changes(self, topics: frozenset[Topic]) -> None:
        if not self.query(Transcript):  # the screen is gone, and the bridge waits for the engine's end
            return
        if "blocks" in topics:
            self._show_blocks()
            self._fill_room()
        act = self.controllers
        followers: tuple[tuple[set[Topic], Callable[[], None]], ...] = (
            ({"status", "session"}, act.modes.show),
            ({"index"}, act.search.show_progress),
            ({"review"}, act.review.offer_commit),
            ({"review", "proof"}, act.proof.follow),
            ({"commits"}, act.commits.show_progress),
            ({"asides"}, act.asides.show_progress),
            ({"queue"}, act.prompt.show_queue),
            ({"status", "session", "review", "ask"}, act.attention.update),
        )
        for relevant_topics, follow in followers:
            if topics & relevant_topics:
                follow()
        if topics & {"queue", "ask"} or (topics & {"blocks", "review", "status"} and not self.state.is_running):
            act.guide.update()
        if "ask" in topics:
            self.context.start(self._show_questions, group="asked", exclusive=True)
        if topics & {"review", "proof", "plan", "debug", "files", "agents"}:
            self.context.start(act.panes.update, topics, group="panes")

    def _fill_room(self) -> None:
        """Show a side pane beside a started conversation, where the window has room to spare; at most once."""
        has_room = self.has_class("-broad") and self.size.width > ONE_PANE_WIDTH
        if has_room and self.state.has_begun and self._is_loaded and self.controllers.panes.side is None:
            pane = "plan" if self.state.current_plan is not None else "review"
            self.context.start(partial(self.controllers.panes.show_beside, pane), group="panes")

    def _show_blocks(self) -> None:
        self.state.update_receipts()
        self.set_class(not self.state.has_begun, "-empty")
        if not self.state.has_begun:
            self._show_greeting()
        self.state.transcript.mark_beside(self.controllers.panes.plan_beside)
        self.query_one(Transcript).show(self.state.blocks)

    @on(SidePane.PaneShown)
    def _show_what_is_beside(self) -> None:
        """Show a plan in full or in brief, as its panel is hidden or in view."""
        if self.state.current_plan is not None:
            self._show_blocks()

    async def _show_questions(self) -> None:
        await self.controllers.questions.show()
        self.controllers.modes.show()
        self._show_pending_notice()

    def report_trouble(self, message: str, hint: str) -> None:
        self.controllers.modes.show("engine away")
        self.context.notify_user(message, hint, is_error=True)

    def handle_session_refused(self, message: str, hint: str) -> None:
        self.app.exit(return_code=1, message=f"agent-tui: {fit_line(f'{message} {hint}'.strip(), 400)}")

    async def choose_model(self, models: queries.ModelsAnswer) -> SessionRequest | None:
        request = await self.controllers.providers.ask_how_to_begin(models, self._request)
        if request is None:
            self.app.exit()
        return request
