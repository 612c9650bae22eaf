"""An app over a scripted client, and a pilot for it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from textual._styles_cache import StylesCache
from textual.pilot import Pilot
from textual.widgets import OptionList

from core.protocol.events import AnyEvent
from tests.support.key_rows import ROWS, watch_keys
from tests.support.scripted_client import ScriptedClient
from tests.support.style_rules import remember_rules
from tui.app import FRAMES_PER_SECOND, AgentApp
from tui.bridge import SessionRequest
from tui.chat.prompt import Prompt
from tui.chat.transcript import Transcript
from tui.dialogs.pages import ConfirmDialog
from tui.screens.controllers.panes import PaneController
from tui.screens.main import MainScreen

SOON = 0.02  # seconds; a timer that ends within them belongs to what is going on


async def settle(_: float = 0, longest: float = 1) -> None:
    """Wait until an app has nothing to do: no callback is ready, no thread is at work, and no timer ends soon.

    In the place of Textual's own, which looks at the CPU of the process for 20 ms at a time, three times for each key.
    What never comes to rest is waited for as if every timer took all of `SOON`, `longest` seconds in all.
    """
    loop: Any = asyncio.get_running_loop()
    patience = longest
    while patience > 0:
        await asyncio.sleep(0)
        patience -= 0.0001
        if timer := _find_timer(loop):
            await _reach(loop, timer.when())
            patience -= SOON
        elif _is_busy(loop._default_executor):
            await _reach(loop, loop.time() + 0.001)
            patience -= 0.001
        elif not loop._ready:
            return


def _find_timer(loop: Any) -> asyncio.TimerHandle | None:
    """Return the next timer, if it ends within `SOON`."""
    timers = [handle for handle in loop._scheduled if not handle.cancelled()]
    timer = min(timers, default=None, key=asyncio.TimerHandle.when)
    return timer if timer and round((timer.when() - loop.time()) / (2 * SOON)) == 0 else None


async def _reach(loop: asyncio.AbstractEventLoop, moment: float) -> None:
    """Wait until the timers that end at a moment of the loop have ended."""
    reached = asyncio.Event()
    loop.call_at(moment, reached.set)
    await reached.wait()


def _is_busy(threads: Any) -> bool:
    return threads is not None and (
        not threads._work_queue.empty() or threads._idle_semaphore._value < len(threads._threads)
    )


class Hand(Pilot[Any]):
    """Strikes keys as somebody does who looks at what each of them did."""

    async def press(self, *keys: str) -> None:
        for key in keys:
            await super().press(key)
            app: Any = self.app
            app.key_filter.keystrokes.flush()
            await self.pause()


@dataclass
class Stage:
    """A running app, the pilot that drives it and the client behind it."""

    app: AgentApp
    pilot: Pilot[Any]
    client: ScriptedClient

    @property
    def screen(self) -> MainScreen:
        return self.app.main

    @property
    def panes(self) -> PaneController:
        return self.screen.controllers.panes

    @property
    def prompt(self) -> Prompt:
        return self.screen.context.prompt

    @property
    def transcript(self) -> Transcript:
        return self.screen.context.transcript

    async def until(self, holds: Callable[[], object]) -> None:
        """Let the app run until something holds. A busy machine may take its time; what never holds is ended anyway."""
        try:
            async with asyncio.timeout(5 if ROWS.dead else 50):  # a dead key brings nothing, however long it is awaited
                while not holds():
                    await self.pilot.pause(0.01)
        except TimeoutError as error:
            if not ROWS.dead:
                error.add_note(self.describe())
            raise

    def describe(self) -> str:
        """Describe what the app shows and still does, for a wait that ended in vain."""
        prompt, state = self.prompt, self.screen.state
        widgets = [(widget, widget._message_queue.qsize()) for widget in self.app.screen.walk_children(with_self=True)]
        facts = {
            "screens": self.app.screen_stack,
            "text of the prompt": prompt.text,
            "sends": (prompt._pending_sends, prompt._hold_count, prompt._is_send_waiting, prompt.is_completing),
            "notifications": [notification.message for notification in self.app._notifications],
            "workers": [worker for worker in self.app.workers if not worker.is_finished],
            "folded events": f"{state.seq} of {len(self.client.log)}",
            "caught up": self.screen.bridge.caught_up.is_set(),
            "messages in queues": [(widget, size) for widget, size in widgets if size],
        }
        return "\n".join(f"{name}: {fact}" for name, fact in facts.items())

    async def asked(self) -> None:
        """Until a dialog that asks for a yes is drawn, and takes one."""
        await self.until(lambda: isinstance(self.app.screen, ConfirmDialog) and self.app.screen.grace_period.is_over())

    async def open_listing(self, command: str, dialog: str) -> None:
        """Send a command that opens a dialog of this name, and wait until its rows are there."""
        self.prompt.text = command
        self.prompt.action_send()
        await self.until(lambda: type(self.app.screen).__name__ == dialog and self.app.screen.query(OptionList))
        await self.pilot.pause()

    def sent(self, kind: type) -> list[Any]:
        return [command for command in self.client.commands if isinstance(command, kind)]

    async def emit(self, *events: AnyEvent) -> None:
        for event in events:
            self.client.emit(event)
        await self.all_shown()

    async def all_shown(self) -> None:
        """Until all that the client has emitted is folded, and all that was folded is on the screen."""
        bridge, last = self.screen.bridge, len(self.client.log)
        await self.until(lambda: self.screen.state.seq >= last and bridge.batches.timer is None)
        await self.pilot.pause()

    def lines(self) -> list[str]:
        """The transcript as it is drawn."""
        view = self.transcript
        return [view.render_line(y).text.rstrip() for y in range(view.size.height)]


Staging = Callable[..., AbstractAsyncContextManager[Stage]]


@pytest.fixture(autouse=True)
def remembered_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    remember_rules(monkeypatch)


@pytest.fixture(autouse=True)
def forgotten_drawings() -> Iterator[None]:
    """Let go what the test drew: a cache of Textual's for two colours counts the widget, too, and so keeps the last
    1,024 of them with all of their strips."""
    yield
    StylesCache.get_inner_outer.cache_clear()  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def watched_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    watch_keys(monkeypatch)


@pytest.fixture(autouse=True)
def settled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for the app goes on as soon as it is idle; frames stand as close as in the program."""
    monkeypatch.setattr("textual.screen.UPDATE_PERIOD", 1 / FRAMES_PER_SECOND)
    for name in ("app", "pilot"):
        monkeypatch.setattr(f"textual.{name}.wait_for_idle", settle)


@pytest.fixture
def snap_compare(snap_compare: Callable[..., bool]) -> Callable[..., bool]:
    """The look of an app, once it stands still."""

    def compare(app: Any, *, run_before: Callable[[Pilot[Any]], Any] | None = None, **options: Any) -> bool:
        async def before(pilot: Pilot[Any]) -> None:
            if run_before is not None and inspect.isawaitable(played := run_before(pilot)):
                await played
            await stand_still(pilot)

        return snap_compare(app, run_before=before, **options)

    return compare


@pytest.fixture
def looks(snap_compare: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Compare the look of the screen after some events and keys, each struck by somebody who sees what the last did."""
    monkeypatch.setattr("tui.widgets.status_bar.FRAME_INTERVAL", 3_600.0)

    def compare(
        events: Sequence[AnyEvent],
        size: tuple[int, int] = (120, 40),
        *,
        wish: SessionRequest | None = None,
        keys: Sequence[str] = (),
        **client: Any,
    ) -> bool:
        scripted = ScriptedClient(events, **client)

        async def connect() -> ScriptedClient:
            return scripted

        app = AgentApp(connect, wish or SessionRequest(model="scripted/demo"))

        async def settle(pilot: Any) -> None:
            for _ in range(200):
                if app.main.state.seq >= len(scripted.log) or wish is not None:
                    break
                await pilot.pause(0.01)
            await pilot.pause()
            for key in keys:
                await pilot.press(key)
                app.key_filter.keystrokes.flush()
            await pilot.pause()

        return bool(snap_compare(app, terminal_size=size, run_before=settle))

    return compare


async def stand_still(pilot: Pilot[Any]) -> None:
    """Wait until the screen looks twice as it did the moment before, and nothing that was folded waits to be shown."""
    app: Any = pilot.app
    looks: list[Any] = []
    while len(looks) < 3 or not looks[-1] == looks[-2] == looks[-3]:
        await pilot.pause(0.03)
        if isinstance(app, AgentApp) and app.main.bridge.batches.timer is not None:
            looks.clear()
        looks.append([list(strip) for strip in app.screen._compositor.render_strips()])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What stands still until a test moves it: the clock of what is seen and of what is struck."""
    now = [1_000_000.0]
    monkeypatch.setattr("tui.input.visibility.monotonic", lambda: now[0])
    monkeypatch.setattr("tui.input.key_filter.KeyFilter.get_seconds_since_struck", lambda _: 0.0)
    return now


@pytest.fixture(autouse=True)
def patient_dialogs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dialogs take an answer as soon as they are drawn."""
    monkeypatch.setattr("tui.dialogs.dialog.GRACE_SECONDS", 0.0)


@pytest.fixture
def stage() -> Staging:
    @asynccontextmanager
    async def staged(
        events: Sequence[AnyEvent] = (),
        *,
        size: tuple[int, int] = (120, 40),
        wish: SessionRequest | None = None,
        keymap: dict[str, str] | None = None,
        **client: Any,
    ) -> AsyncIterator[Stage]:
        scripted = ScriptedClient(events, **client)

        async def connect() -> ScriptedClient:
            return scripted

        app = AgentApp(connect, wish or SessionRequest(model="scripted/demo"), keymap=keymap)
        async with app.run_test(size=size) as pilot:
            on_stage = Stage(app, Hand(pilot.app), scripted)
            if wish is None or wish.has_model:
                await on_stage.all_shown()
            yield on_stage

    return staged
