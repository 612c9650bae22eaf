"""Background agents of one machine: an SQLite file, and a FIFO for every process that waits for changes.

Sessions are on the disk of this machine, so nothing of them is stored here. Every call is short and runs in a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from core.background.records import (
    ENDED,
    AgentMessage,
    BackgroundAgent,
    decode_agent,
    decode_listed_agent,
    decode_messages,
)
from core.background.store import StoreUnavailable, Work
from core.clock import now_ms
from core.errors import StateError
from core.ids import new_id
from core.tasks import TaskOwner, finish_in_thread

FALLBACK_SECONDS: Final = 5.0  # limit of the wait for a lost wake-up
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS agents (id TEXT PRIMARY KEY, state TEXT NOT NULL, record BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS by_state ON agents (state);
CREATE TABLE IF NOT EXISTS messages (
    number INTEGER PRIMARY KEY AUTOINCREMENT, agent TEXT NOT NULL, command BLOB NOT NULL);
"""
T = TypeVar("T")


class SqliteStore:
    """The agents of this machine, below `directory`."""

    stores_sessions = False

    def __init__(self, directory: Path) -> None:
        self._path = directory / "agents.sqlite"
        self._watchers = directory / "watchers"

    async def open(self) -> None:
        await self._run(lambda _: None)

    async def close(self) -> None:
        return

    @contextlib.contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        is_new = not self._path.exists()
        connection = sqlite3.connect(self._path, timeout=20.0, isolation_level=None)
        try:
            if is_new:
                self._path.chmod(0o600)
                connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript(_SCHEMA)
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        finally:
            connection.close()

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return the result of `work` in one transaction; a cancellation takes effect at its end."""
        return await finish_in_thread(self._call, work)

    def _call(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with self._connect() as connection:
                return work(connection)
        except sqlite3.Error as problem:
            raise StoreUnavailable(f"{self._path} can't be used: {problem}.") from problem
        except OSError as problem:
            raise StateError(f"{self._path} can't be used: {problem.strerror}.") from problem

    async def add(self, agent: BackgroundAgent) -> None:
        await self._run(lambda db: _save(db, agent))
        self._wake()

    async def find(self, name: str) -> BackgroundAgent | None:
        return await self._run(lambda db: _load(db, name))

    async def list_agents(self) -> list[BackgroundAgent]:
        rows = await self._run(lambda db: db.execute("SELECT id, record FROM agents ORDER BY id DESC").fetchall())
        agents = (decode_listed_agent(str(name), bytes(record)) for name, record in rows)
        return [agent for agent in agents if agent is not None]

    async def update(self, agent: BackgroundAgent, changes: Mapping[str, Any]) -> BackgroundAgent | None:
        def work(db: sqlite3.Connection) -> BackgroundAgent | None:
            stored_agent = _load(db, agent.id)
            if stored_agent is None or stored_agent.attempt != agent.attempt:
                return None
            return _save(db, replace(stored_agent, **changes))

        changed_agent = await self._run(work)
        self._wake()
        return changed_agent

    async def change_state(self, name: str, changes: Mapping[str, Any], *, only_in: frozenset[str]) -> bool:
        def work(db: sqlite3.Connection) -> bool:
            stored_agent = _load(db, name)
            if stored_agent is None or stored_agent.state not in only_in:
                return False
            _save(db, replace(stored_agent, **changes))
            return True

        is_changed = await self._run(work)
        self._wake()
        return is_changed

    async def delete(self, name: str) -> None:
        def work(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM agents WHERE id = ?", (name,))
            db.execute("DELETE FROM messages WHERE agent = ?", (name,))

        await self._run(work)
        self._wake()

    async def queue(self, name: str) -> None:
        await self.change_state(name, {"state": "queued", "ended": 0, "pulled": False}, only_in=ENDED)

    async def post(self, name: str, command: Mapping[str, Any]) -> None:
        payload = msgspec.json.encode(command)
        await self._run(lambda db: db.execute("INSERT INTO messages (agent, command) VALUES (?, ?)", (name, payload)))
        self._wake()

    async def list_messages(self, name: str, after: int) -> list[AgentMessage]:
        query = "SELECT number, command FROM messages WHERE agent = ? AND number > ? ORDER BY number"
        rows = await self._run(lambda db: db.execute(query, (name, after)).fetchall())
        return decode_messages(rows)

    async def work(self, worker: str, concurrency: int, run: Work) -> None:
        """Run queued agents until cancelled. The caller is the only worker of this machine, so agents that are marked
        as running at the start were left by a dead one."""
        running = TaskOwner()
        room = asyncio.Semaphore(concurrency)
        await self._run(_queue_abandoned)
        try:
            async for _ in self.watch():
                while not room.locked() and (agent := await self._run(lambda db: _claim(db, worker))) is not None:
                    await room.acquire()
                    self._wake()
                    running.start(run(agent), name=f"agent {agent.id}").add_done_callback(
                        lambda _: self._release_slot(room)
                    )
        finally:
            await running.cancel()

    def _release_slot(self, room: asyncio.Semaphore) -> None:
        room.release()
        self._wake()

    def _wake(self) -> None:
        """Wake all waiting processes. Every one has its own FIFO; one without a reader was left by a killed process."""
        for fifo in self._watchers.glob("*"):
            try:
                descriptor = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError:
                with contextlib.suppress(OSError):
                    fifo.unlink()
                continue
            with contextlib.suppress(OSError):  # it is full of wake-ups
                os.write(descriptor, b"w")
            os.close(descriptor)

    async def watch(self) -> AsyncIterator[str]:
        """Yield "" at once, at every wake-up, and from time to time."""
        news, loop = asyncio.Event(), asyncio.get_running_loop()
        fifo, descriptor = self._open_fifo()

        def drain() -> None:
            with contextlib.suppress(BlockingIOError):
                os.read(descriptor, 4096)
            news.set()

        loop.add_reader(descriptor, drain)
        try:
            while True:
                news.clear()
                yield ""
                # `wait_for` can lose a cancellation that coincides with the event (Python 3.11)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(FALLBACK_SECONDS):
                        await news.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            fifo.unlink(missing_ok=True)

    def _open_fifo(self) -> tuple[Path, int]:
        fifo = self._watchers / new_id("wake")
        try:
            self._watchers.mkdir(mode=0o700, exist_ok=True)
            os.mkfifo(fifo, 0o600)
            # Opened for writing as well, so that it does not end with its last writer.
            return fifo, os.open(fifo, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as problem:
            raise StateError(f"{fifo} can't be created: {problem.strerror}.") from problem

    async def store_log(self, agent: BackgroundAgent, start: int, data: bytes) -> bool:
        return True

    async def read_log(self, name: str) -> bytes:
        return b""

    async def store_file(self, name: str, path: str, data: bytes) -> None:
        return

    async def read_files(self, name: str) -> AsyncIterator[tuple[str, bytes]]:
        for _ in ():
            yield "", b""


def _load(db: sqlite3.Connection, name: str) -> BackgroundAgent | None:
    row = db.execute("SELECT record FROM agents WHERE id = ?", (name,)).fetchone()
    return decode_agent(bytes(row[0])) if row is not None else None


def _save(db: sqlite3.Connection, agent: BackgroundAgent) -> BackgroundAgent:
    row = (agent.id, agent.state, msgspec.json.encode(agent))
    db.execute("INSERT OR REPLACE INTO agents (id, state, record) VALUES (?, ?, ?)", row)
    return agent


def _claim(db: sqlite3.Connection, worker: str) -> BackgroundAgent | None:
    for name, record in db.execute("SELECT id, record FROM agents WHERE state = 'queued' ORDER BY id").fetchall():
        if (agent := _read_or_end(db, name, record)) is not None:
            claimed_agent = replace(
                agent, state="running", worker=worker, attempt=agent.attempt + 1, started=agent.started or now_ms()
            )
            return _save(db, replace(claimed_agent, ended=0))
    return None


def _queue_abandoned(db: sqlite3.Connection) -> None:
    query = "SELECT id, record FROM agents WHERE state IN ('running', 'waiting')"
    for name, record in db.execute(query).fetchall():
        if (agent := _read_or_end(db, name, record)) is not None:
            _save(db, replace(agent, state="queued", worker=""))


def _read_or_end(db: sqlite3.Connection, name: str, record: bytes) -> BackgroundAgent | None:
    """Return the agent of a row; None: its record is unreadable or of another row, so it is marked as failed."""
    with contextlib.suppress(StateError):
        if (agent := decode_agent(bytes(record))).id == name:
            return agent
    db.execute("UPDATE agents SET state = 'failed' WHERE id = ?", (name,))
    return None
