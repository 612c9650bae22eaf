"""The index of a project, shared by its sessions: read in threads, built by a separate process.

The first process that asks for the index holds a lock and passes it on to the builder that it starts, so the lock is
free when the builder dies. Other processes read what the builder writes, and take over at their next change or query.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from msgspec.structs import replace

from core.clock import monotonic, pause
from core.engine.shared.project_files import FileWatcher
from core.index.builder_command import BuilderRequest, build_builder_command
from core.index.database import DAMAGED, FILE_NAME, IndexFailed, lock_for_building, report_damage
from core.index.reader import Generation, IndexReader, SymbolLocation
from core.protocol.events import IndexProgressed, IndexStatus
from core.records import decode_json
from core.tasks import TaskOwner, finish_in_thread
from core.workspace.file_names import from_os_name

if TYPE_CHECKING:
    from core.index.repo_map import RepoMap

_STARTS: Final = 3
"""Restarts of a crashed builder before the engine gives up."""
_END_SECONDS: Final = 0.3  # the next builder reads again what was not committed by then
_IDLE_SECONDS: Final = 5.0
"""Seconds without work after which the builder ends, since it holds 30 to 50 MB; the next change starts another one."""
_IDLE_END_SECONDS: Final = 10.0
_LINE_LIMIT: Final = 1 << 20
T = TypeVar("T")
_START_SECONDS: Final = 1.0
"""Delay of the build after the first session was opened, so that it does not slow down the first screen or prompt."""
CATCH_UP_SECONDS: Final = 5.0
"""Seconds that the first queries of a run without a screen wait for an index that is not ready."""
_FOLLOW_SECONDS: Final = 1.0
_WATCH_SECONDS: Final = 30.0
_SWEEP_SECONDS: Final = 60.0


class ProjectIndex:
    """The index below `directory`, which is the project's in the state directory. `on_progress` gets its progress.

    Nothing is started, read or written before `start_soon` or the first query. If the index is off or fails, queries
    have no results, and `status` says why.
    """

    def __init__(
        self, root: Path, directory: Path, on_progress: Callable[[IndexProgressed], None], *, is_enabled: bool
    ) -> None:
        self.directory = directory
        self._database = database = directory / FILE_NAME
        self._enabled = is_enabled
        self._reader = IndexReader(database)
        self._reading = asyncio.Lock()
        self._link = BuilderLink(root, database, self._set_status)
        self._on_progress = on_progress
        self._tasks = TaskOwner()
        self._following: asyncio.Task[None] | None = None
        self._status = IndexStatus(problem="" if is_enabled else "it is turned off: index.enabled")
        self._status_changed = asyncio.Event()
        self._watcher: FileWatcher | None = None
        self._swept_at = 0.0
        self._patience_end: float | None = None
        self._map: tuple[Generation, RepoMap] | None = None
        self._loading: asyncio.Task[None] | None = None

    def status(self) -> IndexStatus:
        """Return the last known progress."""
        return self._status

    def start_soon(self, watcher: FileWatcher | None) -> None:
        """Have the index built or updated after a short delay; the watcher reports later changes. Without a watcher (a
        run without a screen) the files are compared at queries."""
        if self._enabled:
            self._watcher = watcher
            self._tasks.spawn(self._start_later(watcher), name="index")

    async def _start_later(self, watcher: FileWatcher | None) -> None:
        await pause(_START_SECONDS)
        if watcher is not None:
            await asyncio.to_thread(watcher.ready.wait, _WATCH_SECONDS)
        await self.start()

    async def start(self) -> None:
        """Have the index built or updated, by this process or by another one that already does it."""
        if not self._enabled:
            return
        self._swept_at = monotonic()  # a builder starts with a sweep
        if self._status.state == "off":  # until the builder reports its progress
            self._set_status(IndexStatus(state="building"))
        try:
            is_ours = await self._link.ensure()
        except OSError as problem:
            self._set_status(IndexStatus(state="failed", problem=f"the index can't be created: {problem}"))
            return
        if not is_ours and self._following is None:
            self._following = self._tasks.start(self._follow(), name="index of another process")

    async def _follow(self) -> None:
        """Report the progress of another process's builder until it is done; take over if that process ends."""
        try:
            while not await self._link.ensure() and not self._link.has_given_up:
                with suppress(IndexFailed):
                    self._set_status(await self.read(IndexReader.read_status))
                    if self._status.state == "ready" and self._status.embedded >= self._status.chunks:
                        return
                await pause(_FOLLOW_SECONDS)
        except OSError as problem:
            self._set_status(IndexStatus(state="failed", problem=f"the index can't be created: {problem}"))
        finally:
            self._following = None

    def _set_status(self, status: IndexStatus) -> None:
        if status != self._status:
            self._status = status
            self._status_changed.set()
            self._on_progress(IndexProgressed(status=status))
            if status.state == "ready" and self._map is None and self._watcher is not None:
                _ = self._load_map_soon()  # the first prompt uses it

    async def wait_ready(self, seconds: float) -> IndexStatus:
        """Wait until the words of all files are indexed, or indexing fails, for at most `seconds`; return the
        status."""
        await self.start()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._enabled and self._status.state not in ("ready", "failed"):
                    self._status_changed.clear()
                    await self._status_changed.wait()
        return self._status

    async def catch_up(self) -> None:
        """Have the index built or updated in a run without a watcher. Its first queries wait for up to
        `CATCH_UP_SECONDS` in total, and find what is ready by then."""
        if self._watcher is not None or self._status.state in ("ready", "failed"):
            return
        if self._patience_end is None:
            self._patience_end = monotonic() + CATCH_UP_SECONDS
        await self.wait_ready(max(0.0, self._patience_end - monotonic()))

    def on_disk_changed(self, paths: Sequence[str]) -> None:
        """Forward changed paths to the builder, () = too many to name."""
        if self._enabled and not self._link.send(paths):
            self._tasks.spawn(self.start(), name="index takes over")

    # queries

    async def read(self, work: Callable[[IndexReader], T]) -> T:
        """Return the result of `work` on the index, run in a thread. Raises `IndexFailed`."""
        if not self._enabled:
            raise IndexFailed("the index is turned off.", hint="index.enabled = true", code="index_off")
        self._sweep_unwatched()
        async with self._reading:
            try:
                return await finish_in_thread(work, self._reader)
            except IndexFailed as failure:
                self._rebuild_if_damaged(failure)
                raise

    def _rebuild_if_damaged(self, failure: IndexFailed) -> None:
        """Have a damaged index rebuilt, since the builder does not read back all that it wrote. A builder of another
        process learns of the damage with the next change."""
        if failure.code == DAMAGED:
            with suppress(OSError):
                report_damage(self._database)
            self.on_disk_changed(())

    def _sweep_unwatched(self) -> None:
        """Have all files compared periodically if not all of them are watched."""
        is_followed = self._watcher is not None and not self._watcher.is_partial
        if not is_followed and monotonic() - self._swept_at > _SWEEP_SECONDS:
            self._swept_at = monotonic()
            if self._link.has_started:
                self.on_disk_changed(())

    async def find_symbols(self, names: Iterable[str]) -> Mapping[str, tuple[SymbolLocation, ...]]:
        """Return the definitions of names ("name", "Class.method"), best first, without the names that have none."""
        symbol_names = tuple(names)
        try:
            return await self.read(lambda reader: reader.find_symbols(symbol_names))
        except IndexFailed:
            return {}

    async def build_repo_map(self, budget_tokens: int, focus: Sequence[str], may_show: Callable[[str], bool]) -> str:
        """Return the signatures of the most used symbols in the files that `may_show` allows, those in `focus` first,
        within a budget; "" before the index was built. After a change, the old map is used until the new one is
        loaded."""
        try:
            if self._map is None and (await self.read(IndexReader.read_status)).state == "building":
                return ""  # a map now would cover a part of the files
            if self._map is None:
                await asyncio.wait([self._load_map_soon()])
            elif self._map[0] != await self.read(IndexReader.read_generation):
                _ = self._load_map_soon()
        except IndexFailed:
            return ""
        map_entry = self._map
        if map_entry is None:
            return ""
        return await asyncio.to_thread(map_entry[1].draw, budget_tokens, tuple(sorted(focus)), may_show)

    def _load_map_soon(self) -> asyncio.Task[None]:
        """Start loading the map; concurrent callers share one load."""
        if self._loading is None:
            self._loading = self._tasks.start(self._load_map_again(), name="map of the project")
        return self._loading

    async def _load_map_again(self) -> None:
        try:
            with suppress(IndexFailed):
                await self._load_map()
        finally:
            self._loading = None

    async def _load_map(self) -> None:
        """Load the current references of the project. Raises `IndexFailed`."""

        def load() -> tuple[Generation, RepoMap]:
            reader = IndexReader(
                self._database
            )  # a separate reader, since other queries would wait for seconds on a large project
            try:
                return reader.load_map()
            finally:
                reader.close()

        if self._enabled:
            try:
                self._map = await asyncio.to_thread(load)
            except IndexFailed as failure:
                self._rebuild_if_damaged(failure)
                raise

    async def close(self) -> None:
        """End our builder and close the index. Safe to call twice. An unwatched run does not wait for the builder: the
        next one continues from the last commit."""
        self._enabled = False
        self._status = replace(self._status, state="off")
        await self._tasks.cancel()
        await self._link.close(at_once=self._watcher is None)
        async with self._reading:
            self._reader.close()


class BuilderLink:
    """The builder that this process has started, if any. `on_status` is called with every status of it."""

    def __init__(self, root: Path, database: Path, on_status: Callable[[IndexStatus], None]) -> None:
        self._root = root
        self._database = database
        self._on_status = on_status
        self._process: asyncio.subprocess.Process | None = None
        self._tasks = TaskOwner()
        self._starting = asyncio.Lock()
        self._starts = 0
        self._closed = False
        self._idle_timer: asyncio.TimerHandle | None = None

    @property
    def is_ours(self) -> bool:
        """True while a builder of this process runs."""
        return self._process is not None and self._process.returncode is None

    @property
    def has_started(self) -> bool:
        """True if this process has started a builder, which may have ended since."""
        return self._process is not None

    @property
    def has_given_up(self) -> bool:
        """True if builders of this process have crashed too often for another start."""
        return self._starts >= _STARTS

    async def ensure(self) -> bool:
        """Start the builder unless one runs. Return True if it belongs to this process. Raises OSError."""
        async with self._starting:
            if self._process is not None and self._process.stdin is not None and self._process.stdin.is_closing():
                await self._end(self._process, _IDLE_END_SECONDS)  # It was idle; its lock is free after its end.
            if self._closed or self.is_ours or self.has_given_up:
                return self.is_ours
            if (lock := await asyncio.to_thread(lock_for_building, self._database)) is None:
                return False
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *build_builder_command(self._root, self._database),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.DEVNULL,
                    limit=_LINE_LIMIT,
                    pass_fds=(lock,),
                    start_new_session=True,
                    env={**os.environ, "TMPDIR": tempfile.gettempdir()},
                )
            finally:
                os.close(lock)
            self._tasks.spawn(self._follow(self._process), name="index builder")
            return True

    def send(self, paths: Iterable[str]) -> bool:
        """Send the changed paths to our builder, () = too many to name. Return False if there is no builder."""
        process = self._process
        if process is None or process.stdin is None or not self.is_ours or process.stdin.is_closing():
            return False
        self._stop_idle_timer()
        changed_paths = tuple(from_os_name(os.fsencode(path)) for path in paths)
        process.stdin.write(msgspec.json.encode(BuilderRequest(changed=changed_paths)) + b"\n")
        return True

    async def _follow(self, process: asyncio.subprocess.Process) -> None:
        """Forward the status of a builder; start another one if it crashed."""
        assert process.stdout is not None
        with suppress(ValueError):
            async for line in process.stdout:
                with suppress(msgspec.DecodeError):
                    status = decode_json(line, IndexStatus)
                    self._on_status(status)
                    self._start_idle_timer(process, status)
        if await process.wait() == 0 or self._closed:
            return
        self._starts += 1
        if self.has_given_up:
            self._on_status(IndexStatus(state="failed", problem="its builder keeps crashing; `agent-tui index build`"))
            return
        await pause(self._starts)
        with suppress(OSError):
            await self.ensure()

    def _start_idle_timer(self, process: asyncio.subprocess.Process, status: IndexStatus) -> None:
        """End the builder a while after it has reported that nothing is left to do. It reports after each request."""
        self._stop_idle_timer()
        if status.state == "ready" and status.embedded >= status.chunks and process.stdin is not None:
            self._idle_timer = asyncio.get_running_loop().call_later(_IDLE_SECONDS, process.stdin.close)

    def _stop_idle_timer(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()

    async def _end(self, process: asyncio.subprocess.Process, seconds: float) -> None:
        """End a builder, by force after some seconds: the next one reads again what was not committed."""
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(seconds):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    async def close(self, *, at_once: bool = False) -> None:
        """End our builder; its commits stay. `at_once`: do not wait for it. Safe to call twice."""
        self._closed = True
        self._stop_idle_timer()
        async with self._starting:  # also ends a builder that is just being started
            process = self._process
        if process is not None:
            await self._end(process, 0 if at_once else _END_SECONDS)
        await self._tasks.cancel()
        self._process = None
