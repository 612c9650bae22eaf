"""A worker: a process that runs background agents until it is told to stop, or has nothing to do.

On one machine there is one of them, by a lock; whoever starts an agent starts it, and it ends when nothing is left.
"""

from __future__ import annotations

import asyncio
import os
import platform
import signal
from collections.abc import Callable
from typing import Final

from core.background.records import ENDED, BackgroundAgent
from core.background.store import AgentStore
from core.engine.shared.models import ModelAccess
from core.worker.runner import run_agent

IDLE_SECONDS: Final = 60.0
CONCURRENCY: Final = 4


def name_worker() -> str:
    """Return the name of this process among the workers of a team."""
    return f"{platform.node() or 'localhost'}:{os.getpid()}"


async def serve_agents(
    store: AgentStore,
    *,
    concurrency: int = CONCURRENCY,
    idle_seconds: float | None = None,
    models: ModelAccess | None = None,
) -> None:
    """Run agents until SIGTERM or SIGINT, or (`idle_seconds`) until nothing was left to do for so long. Agents that run
    are interrupted then, and taken up again by the next worker."""
    busy = 0
    news = asyncio.Event()

    async def run(agent: BackgroundAgent) -> None:
        nonlocal busy
        busy += 1
        news.set()
        try:
            await run_agent(store, agent, models)
        finally:
            busy -= 1
            news.set()

    await store.open()
    working = asyncio.ensure_future(store.work(name_worker(), concurrency, run))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, working.cancel)
    watching = asyncio.ensure_future(_wait_until_idle(lambda: busy, store, news, idle_seconds))
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, watching):
            task.cancel()
        await asyncio.wait({working, watching})
        await store.close()
    if not working.cancelled() and (fault := working.exception()) is not None:
        raise fault


async def _wait_until_idle(
    count_busy: Callable[[], int], store: AgentStore, news: asyncio.Event, seconds: float | None
) -> None:
    """Return when nothing runs and nothing is queued for so many seconds; None: never."""
    while True:
        news.clear()
        try:
            async with asyncio.timeout(seconds):
                await news.wait()
        except TimeoutError:
            if not count_busy() and all(agent.state in ENDED for agent in await store.list_agents()):
                return
