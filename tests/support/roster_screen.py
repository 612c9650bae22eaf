"""The screen on an engine of this process, with the roster of a session's subagents."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from textual.pilot import Pilot

from core.engine import Engine
from tui.app import AgentApp
from tui.bridge import SessionRequest
from tui.roster import AgentList, list_entries


@contextlib.asynccontextmanager
async def open_screen(engine: Engine, session: str) -> AsyncIterator[tuple[AgentApp, Pilot[Any]]]:
    """The app with this session open in it."""

    async def connect() -> Any:
        return engine

    app = AgentApp(connect, SessionRequest(resume=session))
    async with app.run_test(size=(160, 40)) as pilot:
        await until(pilot, lambda: app.main.state.session_id)
        yield app, pilot


async def until(pilot: Pilot[Any], holds: Callable[[], object]) -> None:
    """Let the app run until something holds. What never holds is ended, with the screen that it stayed at."""
    try:
        async with asyncio.timeout(40):
            while not holds():
                await pilot.pause(0.02)
    except TimeoutError:
        rows = pilot.app.screen._compositor.render_strips()
        screen_text = "\n".join("".join(segment.text for segment in row).rstrip() for row in rows)
        raise AssertionError(f"the screen stayed at\n{screen_text}") from None


def read_rows(app: AgentApp) -> str:
    """What the roster shows, a line for each of its rows."""
    agent_list = app.main.query_one(AgentList)
    return "\n".join(agent_list.render_line(y).text.rstrip() for y in range(agent_list.size.height))


def mark(app: AgentApp, title: str) -> str:
    """Put the cursor on the subagent with this title, wherever it stands; returns its id."""
    titles = [entry.title for entry in list_entries(app.main.state)]
    app.main.query_one(AgentList).move_to(titles.index(title))
    return list_entries(app.main.state)[titles.index(title)].id
