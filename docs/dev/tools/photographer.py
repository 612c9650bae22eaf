"""Somebody who photographs the program: the real screens over a real engine, in a directory and a life of their own.

Time stands still, so that nothing in a picture depends on the machine that made it. A picture names no host and no font
that would have to be fetched.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Final

ROOT: Final = Path(__file__).resolve().parents[3]
IMAGES: Final = ROOT / "docs" / "images"
WIDE, SMALL = (120, 36), (60, 16)
FONTS: Final = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
NOON: Final = 1_767_268_800_000  # ms since the epoch
STILL: Final = 0.15  # seconds without a change, after which a screen is taken to be settled

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tui.app import AgentApp
    from tui.state.view import ViewState


class Photographer:
    """Drives one app and takes pictures of it."""

    def __init__(self, app: AgentApp, pilot: Pilot[Any]) -> None:
        self._app, self._pilot = app, pilot

    @property
    def state(self) -> ViewState:
        """What the screen shows, as data."""
        return self._app.main.state

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until something holds, and the screen has drawn it. Raises `TimeoutError` with what the screen says."""
        try:
            async with asyncio.timeout(30):
                while not holds():
                    await self._pilot.pause(0.02)
        except TimeoutError:
            raise TimeoutError(self.read()) from None
        await self._pilot.pause(STILL)

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other has been taken."""
        for key in keys:
            await self._pilot.press(key)
            await self._pilot.pause(STILL)

    async def resize(self, size: tuple[int, int]) -> None:
        """Another size of the terminal."""
        await self._pilot.resize_terminal(*size)
        await self._pilot.pause(STILL)

    def read(self) -> str:
        """All words on the screen."""
        return "\n".join(
            "".join(segment.text for segment in row) for row in self._app.screen._compositor.render_strips()
        )

    def is_at_prompt(self) -> bool:
        """True if what is typed goes into the prompt."""
        return self._app.main.context.prompt.has_focus

    def shows(self, kind: type[Any]) -> bool:
        """True if a dialog of this kind has the screen."""
        return isinstance(self._app.screen, kind)

    async def take_small(self, name: str, *keys: str) -> None:
        """Take a picture at the small size, after some keys."""
        await self.resize(SMALL)
        await self.press(*keys)
        await self.take(name)

    async def next_turn(self, number: int) -> None:
        """Take the suggested prompt; until its turn has ended and the next prompt is suggested."""
        await self.until(lambda: self.state.suggestion is not None)
        await self.press("enter")
        await self.until(lambda: sum(block.kind == "turn_end" for block in self.state.blocks) >= number)
        await self.until(lambda: self.state.suggestion is not None)

    async def take(self, name: str) -> None:
        """Write docs/images/NAME.svg."""
        await self._pilot.pause(2 * STILL)
        IMAGES.mkdir(parents=True, exist_ok=True)
        path = IMAGES / f"{name}.svg"
        path.write_text(self_contained(self._app.export_screenshot(title="agent-tui")), encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")


def self_contained(svg: str) -> str:
    """The picture without the addresses of fonts and without remarks, in a font that every system has."""
    svg = re.sub(r"@font-face\s*\{[^}]*\}", "", svg)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family:\s*[^;]+;", f"font-family: {FONTS};", svg)
    return re.sub(r"\n\s*\n+", "\n", svg).strip() + "\n"


class OnScreen:
    """An app over an engine of its own, and somebody to photograph it."""

    photographer: ClassVar[type[Photographer]] = Photographer

    def __init__(self, directory: Path, wish: Any, *, watch: bool = False) -> None:
        from core.engine import Engine, EngineOptions
        from tui.app import AgentApp

        engine = Engine(directory, options=EngineOptions(watch=watch, trust=True))

        async def connect() -> Engine:
            return engine

        self._app = AgentApp(connect, wish)
        self._running = self._app.run_test(size=WIDE)

    async def __aenter__(self) -> tuple[AgentApp, Photographer]:
        return self._app, self.photographer(self._app, await self._running.__aenter__())

    async def __aexit__(self, *problem: Any) -> None:
        await self._running.__aexit__(*problem)


def live_as_a_stranger(scratch: Path) -> None:
    """An environment without keys, settings, sessions or a clock, of somebody who has taken the tour."""
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_BASE_URL", "_HOST")) or name.startswith("AGENT_TUI_"):
            del os.environ[name]
    fixed = {"AGENT_TUI_SCRIPT_SPEED": "0", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    fixed |= {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring", "TZ": "UTC"}
    fixed |= {"AGENT_TUI_STATE_DIR": str(scratch / "state"), "AGENT_TUI_CONFIG_DIR": str(scratch / "config")}
    os.environ.update(fixed)
    (scratch / "state").mkdir()
    (scratch / "state" / "guide.json").write_text('{"tour": "done"}')
    from core import clock
    from core.plans import todo_graph as model
    from tui.sessions import home, picker
    from tui.widgets import status_bar as status

    vars(model)["secrets"] = SimpleNamespace(token_hex=lambda _: "5ca1ab1e")
    vars(status)["FRAME_TIME"] = 3600.0
    for ages in (home, picker):
        vars(ages)["time"] = lambda: NOON / 1000
    vars(clock)["time"] = SimpleNamespace(time_ns=lambda: NOON * 1_000_000, monotonic=lambda: 0.0)


def write_settings(policy: str, more: str = "") -> None:
    """Settings in which `policy` decides on commands."""
    from core.user_dirs import get_config_dir

    get_config_dir().mkdir(parents=True, exist_ok=True)
    (get_config_dir() / "config.toml").write_text(f'[commands]\npolicy = "{policy}"\n{more}')
