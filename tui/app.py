"""The app: themes, keys and the main screen. `run` is what the launcher calls.

Nothing is imported here that the first paint does not need, and the engine is not started before it.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeVar

from rich.console import RenderableType
from rich.text import Text
from textual import events
from textual import screen as textual_screen
from textual.app import App
from textual.screen import Screen

from core.protocol import commands
from core.protocol.events import ModeName
from core.protocol.messages import Effort
from tui.bridge import Connect, Wish
from tui.key_door import KeyDoor
from tui.keymap import checked
from tui.paint import Shown
from tui.screens.main import MainScreen
from tui.text import arm_renderer
from tui.themes import DEFAULT, THEMES
from tui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from textual.driver import Driver

    from core.protocol.client import Client


class Options(Protocol):
    """What the command line says about a screen; None = not said."""

    @property
    def directory(self) -> Path: ...
    @property
    def continue_last(self) -> bool: ...
    @property
    def resume(self) -> str | None: ...
    @property
    def mode(self) -> ModeName | None: ...
    @property
    def model(self) -> str | None: ...
    @property
    def effort(self) -> Effort | None: ...
    @property
    def demo(self) -> bool: ...


# A key that is struck just after a frame waits for the next one, so frames stand closer than Textual has them (60).
FRAMES_A_SECOND: Final = 120

OptionsT = TypeVar("OptionsT", bound=Options)
Keep = Callable[[BaseException], str]


def _palette() -> Any:
    from tui.commands import Palette

    return Palette


def wish_of(options: Options) -> Wish:
    """The session that a command line asks for."""
    resume, mode, model = "" if options.continue_last else options.resume, options.mode, options.model
    pane, changes = str(getattr(options, "pane", "")), list[commands.ModeSet | commands.ModelSet | commands.EffortSet]()
    if resume is not None:
        changes += [commands.ModeSet(mode=mode)] if mode else []
        changes += [commands.ModelSet(model=model)] if model else []
        changes += [commands.EffortSet(effort=options.effort)] if options.effort else []
    return Wish(
        resume=resume,
        mode=mode or "agent",
        model=model or "",
        effort=options.effort or "",
        demo=options.demo,
        pane=pane,
        changes=tuple(changes),
    )


class AgentApp(App[int], inherit_bindings=False):
    """One window on one workspace. `keymap` changes keys by id, `theme` is a name of ours or of Textual's."""

    CSS_PATH = "app.tcss"
    TITLE = "agent-tui"

    ends_by_signals: Callable[[AgentApp], None] | None = None
    keep: Keep | None = None

    COMMANDS: ClassVar[set[Any]] = {_palette}
    ENABLE_COMMAND_PALETTE = True

    def __init__(
        self,
        connect: Connect,
        wish: Wish,
        *,
        keymap: Mapping[str, str] | None = None,
        theme: str = "",
        driver: type[Driver] | None = None,
    ) -> None:
        arm_renderer()
        super().__init__(driver_class=driver)
        self._client_of, self._wish = connect, wish
        self.keymap, self._wrong_keys = checked(keymap or {})
        for each in THEMES:
            self.register_theme(each)
        self.theme = theme if theme in self.available_themes else DEFAULT
        self.animation_level = "none"
        self.main = MainScreen(connect, wish)
        self.door = KeyDoor(self)
        self.since_struck = self.door.since_struck
        self._shown = Shown()
        self._draft = ""

    def get_default_screen(self) -> Screen[Any]:
        return self.main

    def on_load(self) -> None:
        if self.ends_by_signals is not None:
            self.ends_by_signals(self)

    def on_mount(self) -> None:
        if self.keymap:
            self.set_keymap(self.keymap)
        for problem in self._wrong_keys:
            self.notify(problem, severity="warning", markup=False)

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        super()._display(screen, self._shown.of(screen, renderable))

    async def on_event(self, event: events.Event) -> None:
        if self.door.let(event):
            await super().on_event(event)

    async def _on_key(self, event: events.Key) -> None:
        if self.door.bubbled(event):
            await super()._on_key(event)
        event.prevent_default()

    def _fatal_error(self) -> None:
        """A fault of the screen ends it: the trace is kept, since it would show what the session holds."""
        fault = getattr(self, "_exception", None)
        if self.keep is None or fault is None:
            super()._fatal_error()
            return
        told = f"agent-tui: the screen failed ({type(fault).__name__}). The session is kept: agent-tui -c"
        self._exit_renderables.append(Text(f"{told} {self.keep(fault)}\n"))
        self._close_messages_no_wait()

    def exit(self, result: Any = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        """Leave; what stands in the prompt is there again when the session is gone on with."""
        self._draft = next((each.expanded for each in self.main.query(Prompt)), "")
        super().exit(result, return_code, message)

    async def on_unmount(self) -> None:
        await self.main.bridge.keep_draft(self._draft)
        await self.main.bridge.close()


def run(
    options: OptionsT,
    connect: Callable[[OptionsT], Awaitable[Client]],
    *,
    keymap: Mapping[str, str] | None = None,
    keep: Keep | None = None,
) -> int:
    """Show the screen until the user leaves. Returns the exit code."""

    async def client() -> Client:
        if not gc.isenabled():  # the launcher paused it; the first frame is there, and what was imported for it stays
            gc.freeze()
            gc.enable()
        return await connect(options)

    vars(textual_screen)["UPDATE_PERIOD"] = 1 / FRAMES_A_SECOND
    from tui.terminal import TerminalDriver, borrowed, end_with

    app = AgentApp(client, wish_of(options), keymap=keymap, driver=TerminalDriver)
    app.ends_by_signals, app.keep = end_with, keep
    with borrowed():
        app.run()
    if not app.return_code:
        from tui.farewell import farewell

        sys.stdout.write(farewell(app.main.state, options.directory))
    return app.return_code or 0
