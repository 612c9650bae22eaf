"""Background agents of a team, in PostgreSQL: any number of workers on any number of machines.

The queue is procrastinate's: one job each time that an agent is due, woken by LISTEN/NOTIFY, and handed to another
worker when the heartbeat of its worker stops. Agents, their messages, and the logs and files of their sessions are in
tables of ours; files may be objects of an object store, each named by a row that is written after the object. The rows
say where a file is, not the setting, so files that were stored before a change of the setting are still read.

A worker that loses the database continues its agents and returns to the queue later. The lease that it renews protects
its agents from others, and `attempt` fences off a worker that was presumed dead.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from core.background.object_store import ObjectStore
from core.background.records import (
    ENDED,
    AgentMessage,
    BackgroundAgent,
    decode_agent,
    decode_listed_agent,
    decode_messages,
)
from core.background.store import LEASE_SECONDS, StoreUnavailable, Work
from core.clock import now_ms, pause
from core.errors import ConfigError
from core.installation import describe_extra
from core.tasks import TaskOwner

if TYPE_CHECKING:
    import procrastinate
    import psycopg
    from psycopg import sql

    from core.background.object_store import ObjectStore

_SESSION_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS agent_tui_log (
    agent text NOT NULL, start bigint NOT NULL, data bytea NOT NULL, PRIMARY KEY (agent, start));
CREATE TABLE IF NOT EXISTS agent_tui_files (
    agent text NOT NULL, path text NOT NULL, data bytea NOT NULL, PRIMARY KEY (agent, path));
CREATE TABLE IF NOT EXISTS agent_tui_objects (
    agent text NOT NULL, path text NOT NULL, place text NOT NULL, PRIMARY KEY (agent, path));
"""
QUEUE: Final = "agent_tui"
CHANNEL: Final = "agent_tui"
RECONNECT_SECONDS: Final = 2.0
SHUTDOWN_SECONDS: Final = 0.5  # the queue barely waits for its jobs, because agents are handed over
FALLBACK_SECONDS: Final = 5.0
MISSING: Final = "PostgreSQL needs packages that are not installed."
_LOCK: Final = 0x6167656E74  # advisory lock: one process creates the schema
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS agent_tui_agents (
    id text PRIMARY KEY, state text NOT NULL, attempt int NOT NULL, record bytea NOT NULL,
    seen timestamptz NOT NULL DEFAULT now());
CREATE TABLE IF NOT EXISTS agent_tui_messages (
    number bigserial PRIMARY KEY, agent text NOT NULL, command bytea NOT NULL);
CREATE INDEX IF NOT EXISTS agent_tui_messages_by_agent ON agent_tui_messages (agent, number);
"""


class PostgresStore:
    """The agents of a team. `lease`: seconds after which another worker takes over an agent of a silent one; `objects`:
    the store of files, None = the database."""

    stores_sessions = True

    def __init__(self, database: str, *, lease: float = LEASE_SECONDS, objects: ObjectStore | None = None) -> None:
        self._database, self._lease, self._objects = database, lease, objects
        self._sessions = SessionRows(self._execute, objects)
        self._connection: psycopg.AsyncConnection[tuple[Any, ...]] | None = None
        self._lock = asyncio.Lock()
        self._queue: procrastinate.App | None = None

    async def open(self) -> None:
        """Connect and create the tables. Raises `ConfigError` without the packages, `StoreUnavailable`."""
        await self._execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
        try:
            await self._execute(_SCHEMA + _SESSION_SCHEMA)
            queue = await self._open_queue()
            rows = await self._execute("SELECT to_regclass('procrastinate_jobs')")
            if rows[0][0] is None:
                await queue.schema_manager.apply_schema_async()
        finally:
            await self._execute("SELECT pg_advisory_unlock(%s)", (_LOCK,))

    async def close(self) -> None:
        queue, self._queue = self._queue, None
        if queue is not None:
            with contextlib.suppress(Exception):  # the database may be away
                await queue.close_async()
        await self._disconnect()

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):  # as above
                await connection.close()

    async def _connect(self) -> psycopg.AsyncConnection[tuple[Any, ...]]:
        try:
            import psycopg
        except ImportError:
            raise ConfigError(MISSING, hint=describe_extra("team")) from None
        try:
            return await psycopg.AsyncConnection.connect(self._database, autocommit=True, connect_timeout=10)
        except psycopg.Error as problem:
            lines = str(problem).strip().splitlines() or ["it does not say why"]
            raise StoreUnavailable(f"The database can't be reached: {lines[0]}.") from None

    async def _execute(self, query: str | sql.SQL, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows. Raises `StoreUnavailable`; the next call reconnects."""
        async with self._lock:
            if self._connection is None:
                self._connection = await self._connect()
            import psycopg

            try:
                cursor = await self._connection.execute(query, values or None)
                return await cursor.fetchall() if cursor.description is not None else []
            except psycopg.Error as problem:
                await self._disconnect()
                raise StoreUnavailable(f"The database did not answer: {str(problem).strip()}.") from None
            except asyncio.CancelledError:
                await self._disconnect()
                raise

    # agents

    async def add(self, agent: BackgroundAgent) -> None:
        await self._execute(
            "INSERT INTO agent_tui_agents (id, state, attempt, record) VALUES (%s, %s, %s, %s)",
            (agent.id, agent.state, agent.attempt, msgspec.json.encode(agent)),
        )
        await self._defer(agent.id)

    async def find(self, name: str) -> BackgroundAgent | None:
        row = await self._read_row(name)
        return decode_agent(row) if row is not None else None

    async def _read_row(self, name: str) -> bytes | None:
        """Return the stored bytes of an agent's record, which another version may have encoded differently."""
        rows = await self._execute("SELECT record FROM agent_tui_agents WHERE id = %s", (name,))
        return bytes(rows[0][0]) if rows else None

    async def list_agents(self) -> list[BackgroundAgent]:
        rows = await self._execute("SELECT id, record FROM agent_tui_agents ORDER BY id DESC")
        agents = (decode_listed_agent(name, bytes(record)) for name, record in rows)
        return [agent for agent in agents if agent is not None]

    async def update(self, agent: BackgroundAgent, changes: Mapping[str, Any]) -> BackgroundAgent | None:
        return await self._change(agent.id, changes, only_if=lambda stored_agent: stored_agent.attempt == agent.attempt)

    async def _change(
        self, name: str, changes: Mapping[str, Any], *, only_if: Callable[[BackgroundAgent], bool]
    ) -> BackgroundAgent | None:
        """Change fields of the current record of an agent, retrying after concurrent writes unless another worker took
        it over; None: no record satisfies `only_if`. The row is compared by its bytes."""
        attempt: int | None = None
        while (row := await self._read_row(name)) is not None:
            stored_agent = decode_agent(row)
            if not only_if(stored_agent) or (attempt is not None and stored_agent.attempt != attempt):
                return None
            attempt, changed_agent = stored_agent.attempt, replace(stored_agent, **changes)
            rows = await self._execute(
                "UPDATE agent_tui_agents SET state = %s, attempt = %s, record = %s, seen = now()"
                " WHERE id = %s AND record = %s RETURNING id",
                (changed_agent.state, changed_agent.attempt, msgspec.json.encode(changed_agent), name, row),
            )
            if rows:
                await self._notify(name)
                return changed_agent
        return None

    async def change_state(self, name: str, changes: Mapping[str, Any], *, only_in: frozenset[str]) -> bool:
        return await self._change(name, changes, only_if=lambda stored_agent: stored_agent.state in only_in) is not None

    async def delete(self, name: str) -> None:
        await self._sessions.delete(name)
        for table, column in (("agents", "id"), ("messages", "agent")):
            await self._execute(f"DELETE FROM agent_tui_{table} WHERE {column} = %s", (name,))
        await self._notify(name)

    async def queue(self, name: str) -> None:
        changes = {"state": "queued", "ended": 0, "pulled": False}
        if await self.change_state(name, changes, only_in=ENDED):
            await self._defer(name)

    async def post(self, name: str, command: Mapping[str, Any]) -> None:
        await self._execute(
            "INSERT INTO agent_tui_messages (agent, command) VALUES (%s, %s)", (name, msgspec.json.encode(command))
        )
        await self._notify(name)

    async def list_messages(self, name: str, after: int) -> list[AgentMessage]:
        query = "SELECT number, command FROM agent_tui_messages WHERE agent = %s AND number > %s ORDER BY number"
        rows = await self._execute(query, (name, after))
        return decode_messages(rows)

    async def _notify(self, name: str) -> None:
        await self._execute("SELECT pg_notify(%s, %s)", (CHANNEL, name))

    async def watch(self) -> AsyncIterator[str]:
        """Yield "" at once, then the id of every changed agent, and "" from time to time."""
        yield ""
        while True:
            with contextlib.suppress(StoreUnavailable):
                async with contextlib.aclosing(self._listen()) as names:
                    async for name in names:
                        yield name
            yield ""
            await pause(RECONNECT_SECONDS)

    async def _listen(self) -> AsyncGenerator[str]:
        connection = await self._connect()
        import psycopg

        try:
            await connection.execute(f"LISTEN {CHANNEL}")
            while True:
                yield ""
                async for notification in connection.notifies(timeout=FALLBACK_SECONDS, stop_after=1):
                    yield notification.payload
        except psycopg.Error as problem:
            raise StoreUnavailable(f"The database did not answer: {problem}.") from None
        finally:
            with contextlib.suppress(Exception):
                await connection.close()

    # the queue

    async def _open_queue(self) -> procrastinate.App:
        if self._queue is None:
            self._queue = await self._build_queue(None)
        return self._queue

    async def _build_queue(self, run: Callable[[str], Any] | None) -> procrastinate.App:
        """Return an open procrastinate app. `run`: the handler of an agent's id in its only task."""
        try:
            import procrastinate
        except ImportError:
            raise ConfigError(MISSING, hint=describe_extra("team")) from None
        app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=self._database, timeout=10))

        @app.task(queue=QUEUE, name="agent_tui.run")
        async def work(agent: str) -> None:
            if run is not None:
                await run(agent)

        try:
            await app.open_async()
        except Exception as problem:  # the pool raises errors of several libraries
            raise StoreUnavailable(f"The database can't be reached: {problem}.") from None
        return app

    async def _defer(self, name: str, seconds: float = 0.0) -> None:
        queue = await self._open_queue()
        schedule_time = datetime.now(UTC) + timedelta(seconds=seconds) if seconds else None
        try:
            await queue.configure_task("agent_tui.run", schedule_at=schedule_time, queue=QUEUE).defer_async(agent=name)
        except Exception as problem:  # as above
            raise StoreUnavailable(f"The agent could not be queued: {problem}.") from None
        await self._notify(name)

    async def work(self, worker: str, concurrency: int, run: Work) -> None:
        """Run queued agents, and those with an expired lease, until cancelled. Survives an outage of the database.
        Raises `ConfigError` or `StoreUnavailable` at once if the object store is unusable: such a worker takes no
        agents."""
        if self._objects is not None:
            await self._objects.check()
        running = TaskOwner()
        busy: dict[str, asyncio.Task[None]] = {}

        async def take(name: str) -> None:
            if name in busy:
                return
            agent = await self._claim(name, worker)
            if agent is None:
                return
            task = busy[name] = running.start(self._run_with_lease(agent, run), name=f"agent {name}")
            task.add_done_callback(lambda _: busy.pop(name, None))
            await asyncio.shield(task)

        try:
            while True:
                with contextlib.suppress(StoreUnavailable):
                    await self._serve(worker, concurrency, take)
                await pause(RECONNECT_SECONDS)
        finally:
            busy_names = tuple(busy)
            await running.cancel()
            for name in busy_names:
                with contextlib.suppress(StoreUnavailable):  # another worker takes it over when its lease expires
                    await self._release(name, worker)

    async def _release(self, name: str, worker: str) -> None:
        """Queue an agent again that this worker did not finish."""
        changes = {"state": "queued", "worker": "", "waits_for": ""}
        is_ours = lambda stored_agent: stored_agent.worker == worker and stored_agent.state in {"running", "waiting"}  # noqa: E731
        if await self._change(name, changes, only_if=is_ours) is not None:
            await self._defer(name)

    async def _serve(self, worker: str, concurrency: int, take: Callable[[str], Any]) -> None:
        """Process jobs until the database is lost."""
        app = await self._build_queue(take)
        beat = min(self._lease / 3, 10.0)
        retrying = asyncio.ensure_future(self._retry_stalled_jobs(app))
        try:
            await app.run_worker_async(
                queues=[QUEUE],
                name=worker,
                concurrency=concurrency,
                install_signal_handlers=False,
                update_heartbeat_interval=beat,
                stalled_worker_timeout=self._lease,
                shutdown_graceful_timeout=SHUTDOWN_SECONDS,
                delete_jobs="successful",
            )
        except asyncio.CancelledError:
            raise
        except Exception as problem:  # of the pool, the driver or the queue: all of them are reopened
            raise StoreUnavailable(f"The queue was lost: {problem}.") from None
        finally:
            retrying.cancel()
            with contextlib.suppress(Exception):
                await app.close_async()

    async def _retry_stalled_jobs(self, app: procrastinate.App) -> None:
        """Hand over jobs of dead workers, periodically."""
        while True:
            await pause(self._lease / 3)
            with contextlib.suppress(Exception):  # the queue itself detects an outage
                for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=self._lease):
                    await app.job_manager.retry_job(job)

    async def _claim(self, name: str, worker: str) -> BackgroundAgent | None:
        """Take over an agent without an active worker; None: it has ended, or another worker is active, and it is
        checked again later."""
        rows = await self._execute(
            "SELECT record, seen < now() - make_interval(secs => %s) FROM agent_tui_agents WHERE id = %s",
            (self._lease, name),
        )
        stored_agent = decode_agent(bytes(rows[0][0])) if rows else None
        if stored_agent is None or stored_agent.state in ENDED:
            return None
        if stored_agent.state != "queued" and not rows[0][1]:
            await self._defer(name, self._lease)
            return None
        changes = {"state": "running", "worker": worker, "attempt": stored_agent.attempt + 1, "ended": 0}
        changes["started"] = stored_agent.started or now_ms()
        expected_state = (stored_agent.attempt, stored_agent.state)
        return await self._change(name, changes, only_if=lambda now: (now.attempt, now.state) == expected_state)

    async def _run_with_lease(self, agent: BackgroundAgent, run: Work) -> None:
        """Run an agent while renewing its lease."""
        renewing = asyncio.ensure_future(self._renew(agent))
        try:
            await run(agent)
        finally:
            renewing.cancel()

    async def _renew(self, agent: BackgroundAgent) -> None:
        while True:
            await pause(self._lease / 3)
            with contextlib.suppress(StoreUnavailable):
                await self._execute(
                    "UPDATE agent_tui_agents SET seen = now() WHERE id = %s AND attempt = %s", (agent.id, agent.attempt)
                )

    # sessions

    async def store_log(self, agent: BackgroundAgent, start: int, data: bytes) -> bool:
        return await self._sessions.store_log(agent, start, data)

    async def read_log(self, name: str) -> bytes:
        return await self._sessions.read_log(name)

    async def store_file(self, name: str, path: str, data: bytes) -> None:
        await self._sessions.store_file(name, path, data)

    def read_files(self, name: str) -> AsyncIterator[tuple[str, bytes]]:
        """Yield path and bytes of every stored file of a session."""
        return self._sessions.read_files(name)


class SessionRows:
    """The stored logs and files of sessions. `execute` runs one statement and returns its rows; `objects` None = files
    are rows. Raises their errors."""

    def __init__(self, execute: Callable[..., Awaitable[list[tuple[Any, ...]]]], objects: ObjectStore | None) -> None:
        self._execute, self._objects = execute, objects

    async def store_log(self, agent: BackgroundAgent, start: int, data: bytes) -> bool:
        rows = await self._execute(
            "INSERT INTO agent_tui_log (agent, start, data) SELECT %s, %s, %s"
            " WHERE EXISTS (SELECT 1 FROM agent_tui_agents WHERE id = %s AND attempt = %s)"
            " ON CONFLICT (agent, start) DO UPDATE SET data = excluded.data RETURNING start",
            (agent.id, start, data, agent.id, agent.attempt),
        )
        return bool(rows)

    async def read_log(self, name: str) -> bytes:
        rows = await self._execute("SELECT start, data FROM agent_tui_log WHERE agent = %s ORDER BY start", (name,))
        log = bytearray()
        for start, data in rows:
            if start > len(log):
                break  # rows after a gap are incomplete
            del log[start:]
            log += bytes(data)
        return bytes(log)

    async def store_file(self, name: str, path: str, data: bytes) -> None:
        if self._objects is None:
            await self._execute(
                "INSERT INTO agent_tui_files (agent, path, data) VALUES (%s, %s, %s)"
                " ON CONFLICT (agent, path) DO UPDATE SET data = excluded.data",
                (name, path, data),
            )
            return
        await self._objects.put(name, path, data)
        await self._execute(
            "INSERT INTO agent_tui_objects (agent, path, place) VALUES (%s, %s, %s)"
            " ON CONFLICT (agent, path) DO UPDATE SET place = excluded.place",
            (name, path, self._objects.place),
        )

    async def read_files(self, name: str) -> AsyncIterator[tuple[str, bytes]]:
        """Yield path and bytes of every stored file of a session."""
        rows = await self._execute("SELECT path FROM agent_tui_files WHERE agent = %s ORDER BY path", (name,))
        for (path,) in rows:
            query = "SELECT data FROM agent_tui_files WHERE agent = %s AND path = %s"
            file_rows = await self._execute(query, (name, path))
            if file_rows:
                yield path, bytes(file_rows[0][0])
        for path, location in await self._list_objects(name):
            yield path, await self._require_objects(location).read(name, path)

    async def delete(self, name: str) -> None:
        """Delete all data of a session; the rows last, so that a failed deletion can be repeated."""
        for _, location in (await self._list_objects(name))[:1]:
            self._require_objects(location)
        if self._objects is not None:
            await self._objects.delete(name)
        for table in ("log", "files", "objects"):
            await self._execute(f"DELETE FROM agent_tui_{table} WHERE agent = %s", (name,))

    async def _list_objects(self, name: str) -> list[tuple[Any, ...]]:
        return await self._execute("SELECT path, place FROM agent_tui_objects WHERE agent = %s ORDER BY path", (name,))

    def _require_objects(self, location: str) -> ObjectStore:
        if self._objects is None:
            hint = f"Set background.blobs to it: {location}?endpoint=…&region=…"
            raise ConfigError(f"Files of this agent are in {location}, and no object store is configured.", hint=hint)
        return self._objects
