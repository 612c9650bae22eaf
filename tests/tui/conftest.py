"""An app over a scripted client, and a pilot for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from textual.pilot import Pilot

from core.protocol.events import AnyEvent
from tests.support.scripted_client import ScriptedClient
from tui.app import AgentApp
from tui.bridge import Wish
from tui.screens.main import MainScreen
from tui.widgets.prompt import Prompt
from tui.widgets.transcript import Transcript


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
    def prompt(self) -> Prompt:
        return self.screen.query_one(Prompt)

    @property
    def transcript(self) -> Transcript:
        return self.screen.query_one(Transcript)

    async def until(self, holds: Callable[[], object]) -> None:
        """Let the app run until something holds; fails after many rounds."""
        for _ in range(200):
            if holds():
                return
            await self.pilot.pause(0.01)
        raise AssertionError("it never came to hold")

    def sent(self, kind: type) -> list[Any]:
        return [command for command in self.client.commands if isinstance(command, kind)]

    async def emit(self, *events: AnyEvent) -> None:
        for event in events:
            self.client.emit(event)
        last = len(self.client.log)
        await self.until(lambda: self.screen.state.seq >= last)
        await self.pilot.pause(0.06)

    def lines(self) -> list[str]:
        """The transcript as it is drawn."""
        view = self.transcript
        return [view.render_line(y).text.rstrip() for y in range(view.size.height)]


Staging = Callable[..., AbstractAsyncContextManager[Stage]]


@pytest.fixture
def stage() -> Staging:
    @asynccontextmanager
    async def staged(
        events: Sequence[AnyEvent] = (),
        *,
        size: tuple[int, int] = (120, 40),
        wish: Wish | None = None,
        keymap: dict[str, str] | None = None,
        **client: Any,
    ) -> AsyncIterator[Stage]:
        scripted = ScriptedClient(events, **client)

        async def connect() -> ScriptedClient:
            return scripted

        app = AgentApp(connect, wish or Wish(model="scripted/demo"), keymap=keymap)
        async with app.run_test(size=size) as pilot:
            on_stage = Stage(app, pilot, scripted)
            if wish is None or wish.names_a_model:
                await on_stage.until(lambda: app.main.state.seq >= len(scripted.log))
                await pilot.pause(0.06)
            yield on_stage

    return staged
