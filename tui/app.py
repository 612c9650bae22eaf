"""The app: themes, keys and the main screen. Imports are limited to those of the first paint."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

from rich.console import RenderableType
from rich.text import Text
from textual import events
from textual import screen as textual_screen
from textual.dom import DOMNode
from textual.notifications import Notify
from textual.screen import Screen
from textual.worker import WorkerFailed

from core.protocol import commands
from core.protocol.events import ModeName
from core.protocol.messages import Effort
from tui.bridge import Connect, SessionRequest
from tui.chat.prompt import Prompt
from tui.input.key_filter import KeyFilter
from tui.keymap import select_known_keys
from tui.screens.main import MainScreen
from tui.terminal.frames import FrameDiff
from tui.text import guard_renderer
from tui.themes.appearance import ThemedApp

if TYPE_CHECKING:
    from textual.driver import Driver

    from core.protocol.client import Client
    from tui.terminal.early_terminal import EarlyTerminal
    from tui.terminal.exit_signals import ExitSignals


class ScreenOptions(Protocol):
    """The part of a command line about the screen; None = the default."""

    directory: Path
    continue_last: bool
    resume: str | None
    mode: ModeName | None
    model: str | None
    effort: Effort | None
    demo: bool


# A key just after a frame waits for the next frame, so frames are closer than Textual's 60 per second.
FRAMES_PER_SECOND: Final = 120

OptionsT = TypeVar("OptionsT", bound=ScreenOptions)
SaveFault = Callable[[BaseException], str]


def build_session_request(options: ScreenOptions) -> SessionRequest:
    resume, mode, model = "" if options.continue_last else options.resume, options.mode, options.model
    pane, effort = str(getattr(options, "pane", "")), options.effort or ""
    changes: list[commands.ModeSet | commands.ModelSet | commands.EffortSet] = []
    if resume is not None:
        changes += [commands.ModeSet(mode=mode)] if mode else []
        changes += [commands.ModelSet(model=model)] if model else []
        changes += [commands.EffortSet(effort=effort)] if effort else []
    request = SessionRequest(resume=resume, mode=mode or "agent", model=model or "", effort=effort, demo=options.demo)
    return replace(request, pane=pane, place=str(getattr(options, "place", "")), changes=tuple(changes))


class AgentApp(ThemedApp[int], inherit_bindings=False):
    """The app of one window on one workspace. `keymap` changes keys by id, `theme` is a built-in name or one of
    Textual's. `early`: the terminal before the app."""

    CSS_PATH = "app.tcss"
    TITLE = "agent-tui"

    exit_signals: ExitSignals | None = None
    save_fault: SaveFault | None = None
    directory = Path()  # that was opened
    is_hung_up = False  # the terminal is gone

    ENABLE_COMMAND_PALETTE = False  # replaced by a dialog

    def __init__(
        self,
        connect: Connect,
        request: SessionRequest,
        *,
        keymap: Mapping[str, str] | None = None,
        theme: str = "",
        driver: type[Driver] | None = None,
        early: EarlyTerminal | None = None,
    ) -> None:
        guard_renderer()
        super().__init__(driver_class=driver)
        self.keymap = select_known_keys(keymap or {})
        self.appearance.choose(theme)
        self.show_appearance()
        self.animation_level = "none"
        self.main = MainScreen(connect, request, early=early)
        self.key_filter = KeyFilter(self, lambda: self.main.controllers.chat)
        self.seconds_since_struck = self.key_filter.get_seconds_since_struck
        self._frame_diff = FrameDiff()
        self._draft: str | None = None  # text of the prompt when the user left

    def get_default_screen(self) -> Screen[Any]:
        return self.main

    def on_load(self) -> None:
        if self.exit_signals is not None:
            self.exit_signals.install()

    @contextmanager
    def suspend(self) -> Iterator[None]:
        """Give the terminal and its signals to another program."""
        with self.exit_signals.ignore_signals() if self.exit_signals is not None else nullcontext(), super().suspend():
            yield

    def on_mount(self) -> None:
        if self.keymap:
            self.set_keymap(self.keymap)

    def _parse_action(
        self, action: Any, default_namespace: DOMNode, namespaces: Mapping[str, DOMNode] | None = None
    ) -> tuple[DOMNode, str, tuple[object, ...]]:
        """Resolve `review.accept_all` as an action of the main screen's controller of that name."""
        if isinstance(action, str) and "." in action.partition("(")[0]:
            namespaces = {**cast("Mapping[str, DOMNode]", self.main.controllers.by_name), **(namespaces or {})}
        return super()._parse_action(action, default_namespace, namespaces)

    async def run_action(
        self,
        action: str | tuple[str, str, tuple[object, ...]],
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        if isinstance(action, str):
            self.main.note_action(action)
        return await super().run_action(action, default_namespace, namespaces)

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        super()._display(screen, self._frame_diff.reduce_update(screen, renderable))

    async def on_event(self, event: events.Event) -> None:
        if self.key_filter.accepts(event):
            await super().on_event(event)

    async def _on_key(self, event: events.Key) -> None:
        if self.key_filter.accepts_bubbled_key(event):
            await super()._on_key(event)
        event.prevent_default()

    def on_notify(self, event: Notify) -> None:
        """Show a toast once while it can be read; in a low window there is room for one."""
        if any(notification.message == event.notification.message for notification in self._notifications):
            event.prevent_default()
        elif not self.main.has_class("-tall"):
            self.clear_notifications()

    def _fatal_error(self) -> None:
        """End after an exception of the screen. The traceback goes to a private file, because it may contain the
        session's data."""
        from tui.notices import format_way_back

        fault = getattr(self, "_exception", None)
        if isinstance(fault, WorkerFailed):  # the wrapped error has the traceback
            fault = fault.error
        if self.save_fault is None or fault is None:
            super()._fatal_error()
            return
        back = format_way_back(self.main.state, self.directory)
        notice = f"agent-tui: the screen failed ({type(fault).__name__}). The session is saved: {back}"
        self._exit_renderables.append(Text(f"{notice} {self.save_fault(fault)}\n"))
        self._close_messages_no_wait()

    def copy_to_clipboard(self, text: str) -> None:
        self._clipboard = text  # clipboard for widgets where the terminal has none
        self.main.controllers.copying.copy(text)

    def exit(self, result: Any = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        """Exit. The text in the prompt is saved as the session's draft for its resumption."""
        self._draft = next((prompt.expanded_text for prompt in self.main.query(Prompt)), "")
        super().exit(result, return_code, message)

    async def on_unmount(self) -> None:
        bridge = self.main.bridge
        if self._draft is not None:
            await bridge.save_draft(self._draft)
        if self.is_hung_up:
            await bridge.detach(by_hangup=True)
        elif self.is_web and self._draft is None:  # a closed tab is no decision to end the session
            await bridge.detach()
        await bridge.close()


def choose_driver() -> type[Driver]:
    """Return the driver: Textual's web driver if TEXTUAL_DRIVER requests one, else the terminal's."""
    if os.environ.get("TEXTUAL_DRIVER") == "textual.drivers.web_driver:WebDriver":
        from tui.terminal.page_driver import PageDriver

        return PageDriver
    from tui.terminal.driver import TerminalDriver

    return TerminalDriver


def run(
    options: OptionsT,
    connect: Callable[[OptionsT, str], Awaitable[Client]],
    *,
    early: EarlyTerminal | None = None,
    save_fault: SaveFault | None = None,
) -> int:
    """Run the screen until the user leaves. Return the exit code. `connect` opens the session to show, "" = a new
    one. `early`: the terminal, if it displays the first frame."""

    async def client() -> Client:
        if not gc.isenabled():  # the launcher disabled it; the modules imported so far are permanent
            gc.freeze()
            gc.enable()
        return await connect(options, app.main.state.session_id or options.resume or "")

    vars(textual_screen)["UPDATE_PERIOD"] = 1 / FRAMES_PER_SECOND
    from tui.terminal.driver import TerminalDriver, get_attributes, restore_on_error, restore_terminal
    from tui.terminal.exit_signals import ExitSignals

    driver, request = choose_driver(), build_session_request(options)
    if early is None:
        app = AgentApp(client, request, driver=driver)
    else:
        with_early = cast("type[Driver]", partial(TerminalDriver, early=early))
        app = AgentApp(client, request, driver=with_early, theme=early.theme, early=early)
    before = get_attributes() if early is None else early.attributes
    app.exit_signals, app.save_fault = ExitSignals(app, partial(restore_terminal, before)), save_fault
    app.directory = options.directory
    with restore_on_error(before):
        app.run()
    if not app.return_code and driver is TerminalDriver:
        from tui.notices import format_exit_summary

        state, bridge = app.main.state, app.main.bridge
        sys.stdout.write(format_exit_summary(state, options.directory, goes_on=bridge.is_detached))
    return app.return_code or 0
