"""Background agents: from the queue to the start, how many a worker gets done, and what each of them leaves and holds.

A worker is a process, as users have it; the model is a script, so everything that is measured is ours. On one machine
the store is SQLite, for a team a real PostgreSQL on loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.served import PROGRAM, environment, home
from benchmarks.table import Result
from core.background.control import start_agent
from core.background.locations import open_store
from core.background.records import ENDED, AgentRequest, BackgroundAgent
from core.background.sqlite_store import SqliteStore
from core.background.store import AgentStore
from tests.support.postgres import find_programs, postgres_server

EDIT = {"name": "search_replace", "arguments": {"file_path": "a.txt", "old_string": "one", "new_string": "two"}}
SHORT = [{"tool_calls": [EDIT]}, {"text": "Done."}]
RUN_LIMIT = 60  # seconds
STARTED = 1.0  # seconds from the queue to the start, the limit on either store
TALK = "word " * 600  # of an agent that is at work, 20 pieces a second


def measure(*, quick: bool) -> Iterator[Result]:
    """SQLite, then PostgreSQL, then the memory of a worker with 1, 4 and 16 agents at work."""
    count = 5 if quick else 20
    with home() as folder:
        directory = folder / "state" / "agents"
        directory.mkdir(parents=True, mode=0o700)
        with worker(folder, "--concurrency", "4"):
            yield from asyncio.run(_time_agents("SQLite", SqliteStore(directory), folder, count))
    programs = find_programs()
    if programs is None:
        return
    with (
        home() as folder,
        postgres_server(programs) as server,
        worker(folder, "--concurrency", "4", "--database", server.url),
    ):
        yield from asyncio.run(_time_agents("PostgreSQL", open_store(server.url), folder, count))
        label = "background: log and files of an agent of one edit, in the database"
        yield Result(what=label, value=asyncio.run(_count_bytes(server.url)) / 1e3, unit="kB")
    for number in (1, 4) if quick else (1, 4, 16):
        with home() as folder:
            yield asyncio.run(_weigh(folder, number))


@contextlib.contextmanager
def worker(folder: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker for as long as the block lasts."""
    argv = [*PROGRAM, "agents", "worker", *words]
    process = subprocess.Popen(argv, env=environment(folder), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def script(folder: Path, steps: Sequence[object]) -> str:
    """A model that plays these steps."""
    path = folder / "script.json"
    path.write_text(json.dumps({"turns": [{"steps": steps}]}), "utf-8")
    return f"scripted/{path}"


def project(folder: Path) -> Path:
    """A project of one file."""
    root = folder / "project"
    root.mkdir()
    (root / "a.txt").write_text("one\n", "utf-8")
    return root


async def _time_agents(name: str, store: AgentStore, folder: Path, count: int) -> list[Result]:
    model, root = script(folder, SHORT), project(folder)
    request = AgentRequest(task_description="Change it", workspace_path=str(root), model=model)
    await store.open()
    try:
        await _run(store, [request])  # until the worker is there
        alone = [(await _run(store, [request]))[0] for _ in range(count)]
        waited = [(agent.started - agent.created) / 1000 for agent in alone]
        begin = time.perf_counter()
        together = await _run(store, [request] * count * 2)
        took = time.perf_counter() - begin
    finally:
        await store.close()
    if wrong := [agent.message for agent in (*alone, *together) if (agent.state, agent.pending) != ("done", 1)]:
        raise RuntimeError(f"agents that did not do it: {wrong[:3]}")
    nearly_all = statistics.quantiles(waited, n=20)[-1]
    return [
        Result(what=f"background, {name}: queued → started, median", value=statistics.median(waited), unit="s"),
        Result(
            what=f"background, {name}: queued → started, 95th percentile", value=nearly_all, unit="s", limit=STARTED
        ),
        Result(
            what=f"background, {name}: agents of one edit, a worker, 4 at once",
            value=len(together) / took * 60,
            unit="a minute",
        ),
    ]


async def _run(store: AgentStore, requests: Sequence[AgentRequest]) -> list[BackgroundAgent]:
    """Start agents and wait until all of them have ended."""
    names = {(await start_agent(store, request, ())).id for request in requests}
    async with asyncio.timeout(RUN_LIMIT):
        async for _ in store.watch():
            agents = [agent for agent in await store.list_agents() if agent.id in names]
            if all(agent.state in ENDED for agent in agents):
                return agents
    raise RuntimeError("the store ended")


async def _count_bytes(database: str) -> float:
    """Mean bytes that an agent has in the database, without what the database itself adds."""
    store = open_store(database)
    await store.open()
    try:
        agents = await store.list_agents()
        sizes = []
        for agent in agents:
            files = [len(data) async for _, data in store.read_files(agent.id)]
            sizes.append(len(await store.read_log(agent.id)) + sum(files))
        return statistics.mean(sizes)
    finally:
        await store.close()


async def _weigh(folder: Path, number: int) -> Result:
    """The memory of a worker and of what it started while so many agents are being answered."""
    directory = folder / "state" / "agents"
    directory.mkdir(parents=True, mode=0o700)
    store, root = SqliteStore(directory), project(folder)
    talking = [{"tool_calls": [EDIT]}, {"text": TALK, "tokens_per_second": 20}]
    request = AgentRequest(task_description="Talk", workspace_path=str(root), model=script(folder, talking))
    await store.open()
    with worker(folder, "--concurrency", str(number)) as process:
        for _ in range(number):
            await start_agent(store, request, ())
        async for _ in store.watch():
            if sum(bool(agent.session) for agent in await store.list_agents()) == number:
                break
        await asyncio.sleep(3)  # until each of them has its edit behind it
        resident = sum(_read_resident(process) for process in _list_family(process.pid))
    await store.close()
    return Result(what=f"background: memory of a worker with {number} agents at work", value=resident / 1e6, unit="MB")


def _list_family(pid: int) -> list[int]:
    """A process and all below it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
    return [pid, *(descendant for child in children for descendant in _list_family(int(child)))]


def _read_resident(pid: int) -> int:
    """Bytes that a process holds resident, shared pages split among those who share them."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
