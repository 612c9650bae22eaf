"""The index of a project as its sessions use it: shared by them, read in threads, built by a process of its own.

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
from core.index.reader import Generation, IndexReader, SymbolPlace
from core.protocol.events import IndexProgressed
from core.protocol.queries.search import IndexStatus
from core.records import decode_json
from core.tasks import TaskOwner, finish_in_thread
from core.workspace.file_names import from_os_name

if TYPE_CHECKING:
    from core.index.repo_map import RepoMap

_STARTS: Final = 3
"""Starts of a builder that died of itself, before it is given up."""
_END_SECONDS: Final = 0.3  # what it has not committed by then is read again
_LINE_LIMIT: Final = 1 << 20
T = TypeVar("T")
_START_SECONDS: Final = 1.0
"""Seconds after the first session was opened, in which its user looks at the screen, or its prompt is sent."""
CATCH_UP_SECONDS: Final = 5.0
"""Seconds for which the first questions without a screen wait for an index that is not ready."""
_FOLLOW_SECONDS: Final = 1.0
_WATCH_SECONDS: Final = 30.0
_SWEEP_SECONDS: Final = 60.0


class BuilderLink:
    """`on_status` is called with every status of a builder of ours."""

    def __init__(self, root: Path, database: Path, on_status: Callable[[IndexStatus], None]) -> None:
        self._root = root
        self._database = database
        self._told = on_status
        self._process: asyncio.subprocess.Process | None = None
        self._tasks = TaskOwner()
        self._starting = asyncio.Lock()
        self._starts = 0
        self._closed = False

    @property
    def is_ours(self) -> bool:
        """True while a builder of ours runs."""
        return self._process is not None and self._process.returncode is None

    @property
    def has_given_up(self) -> bool:
        """True if builders of ours have died too often for another one."""
        return self._starts >= _STARTS

    async def ensure(self) -> bool:
        """Start the builder unless there is one. True if it is ours. Raises OSError."""
        async with self._starting:
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
        """Tell our builder what has changed, () = too much to name; False if there is none."""
        process = self._process
        if process is None or process.stdin is None or not self.is_ours or process.stdin.is_closing():
            return False
        changed_paths = tuple(from_os_name(os.fsencode(path)) for path in paths)
        process.stdin.write(msgspec.json.encode(BuilderRequest(changed=changed_paths)) + b"\n")
        return True

    async def _follow(self, process: asyncio.subprocess.Process) -> None:
        """Pass on what a builder tells; start another one if it died."""
        assert process.stdout is not None
        with suppress(ValueError):
            async for line in process.stdout:
                with suppress(msgspec.DecodeError):
                    self._told(decode_json(line, IndexStatus))
        if await process.wait() == 0 or self._closed:
            return
        self._starts += 1
        if self.has_given_up:
            self._told(IndexStatus(state="failed", problem="its builder died again and again; `agent-tui index build`"))
            return
        await pause(self._starts)
        with suppress(OSError):
            await self.ensure()

    async def close(self, *, at_once: bool = False) -> None:
        """End our builder, which keeps what it has committed. `at_once`: it is not waited for. Safe to call twice."""
        self._closed = True
        async with self._starting:  # one that is just being started ends, too
            process = self._process
        if process is not None and self.is_ours:
            assert process.stdin is not None
            process.stdin.close()
            try:
                async with asyncio.timeout(0 if at_once else _END_SECONDS):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        await self._tasks.cancel()
        self._process = None


class ProjectIndex:
    """The index below `directory`, the project's own in the state directory. `tell` is called with its progress.

    Nothing is started, read or written before `start_soon`, or before something is asked. Where the index is off or
    fails, questions are answered with nothing, and `status` says why.
    """

    def __init__(
        self, root: Path, directory: Path, tell: Callable[[IndexProgressed], None], *, is_enabled: bool
    ) -> None:
        self.directory = directory
        self._database = database = directory / FILE_NAME
        self._enabled = is_enabled
        self._reader = IndexReader(database)
        self._reading = asyncio.Lock()
        self._link = BuilderLink(root, database, self._set_status)
        self._tell = tell
        self._tasks = TaskOwner()
        self._following: asyncio.Task[None] | None = None
        self._status = IndexStatus(problem="" if is_enabled else "it is switched off: index.enabled")
        self._news = asyncio.Event()
        self._watcher: FileWatcher | None = None
        self._swept = 0.0
        self._patience_end: float | None = None
        self._map: tuple[Generation, RepoMap] | None = None
        self._loading: asyncio.Task[None] | None = None

    def status(self) -> IndexStatus:
        """Return how far it is, as it was told last."""
        return self._status

    def start_soon(self, watcher: FileWatcher | None) -> None:
        """Have the index built or brought up to date, a moment from now: what changes from then on is told. Without a
        watcher (nobody looks at the run) it is not, and files are compared when something is asked."""
        if self._enabled:
            self._watcher = watcher
            self._tasks.spawn(self._start_later(watcher), name="index")

    async def _start_later(self, watcher: FileWatcher | None) -> None:
        await pause(_START_SECONDS)
        if watcher is not None:
            await asyncio.to_thread(watcher.ready.wait, _WATCH_SECONDS)
        await self.start()

    async def start(self) -> None:
        """Have the index built or brought up to date, by this process or by the one that does it already."""
        if not self._enabled:
            return
        self._swept = monotonic()  # a builder begins with it
        if self._status.state == "off":  # until the builder tells how far it is
            self._set_status(IndexStatus(state="building"))
        try:
            is_ours = await self._link.ensure()
        except OSError as problem:
            self._set_status(IndexStatus(state="failed", problem=f"the index can't be made: {problem}"))
            return
        if not is_ours and self._following is None:
            self._following = self._tasks.start(self._follow(), name="index of another process")

    async def _follow(self) -> None:
        """Tell how far the builder of another process is, until it is done; take over if that process ends."""
        try:
            while not await self._link.ensure() and not self._link.has_given_up:
                with suppress(IndexFailed):
                    self._set_status(await self.read(IndexReader.read_status))
                    if self._status.state == "ready" and self._status.embedded >= self._status.chunks:
                        return
                await pause(_FOLLOW_SECONDS)
        except OSError as problem:
            self._set_status(IndexStatus(state="failed", problem=f"the index can't be made: {problem}"))
        finally:
            self._following = None

    def _set_status(self, status: IndexStatus) -> None:
        if status != self._status:
            self._status = status
            self._news.set()
            self._tell(IndexProgressed(status=status))
            if status.state == "ready" and self._map is None and self._watcher is not None:
                _ = self._load_map_soon()  # the first prompt takes it

    async def wait_ready(self, seconds: float) -> IndexStatus:
        """Wait until the words of all files are in it, or it fails, at most so long; return how far it is then."""
        await self.start()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._enabled and self._status.state not in ("ready", "failed"):
                    self._news.clear()
                    await self._news.wait()
        return self._status

    async def catch_up(self) -> None:
        """Have it built or brought up to date where it is not followed, as without a screen: the first questions there
        wait a moment for that, and find what is ready by then."""
        if self._watcher is not None or self._status.state in ("ready", "failed"):
            return
        if self._patience_end is None:
            self._patience_end = monotonic() + CATCH_UP_SECONDS
        await self.wait_ready(max(0.0, self._patience_end - monotonic()))

    def on_disk_changed(self, paths: Sequence[str]) -> None:
        """Hear that files have changed, () = too many to name."""
        if self._enabled and not self._link.send(paths):
            self._tasks.spawn(self.start(), name="index takes over")

    # questions

    async def read(self, work: Callable[[IndexReader], T]) -> T:
        """Return what `work` finds in the index, in a thread. Raises `IndexFailed`."""
        if not self._enabled:
            raise IndexFailed("the index is switched off.", hint="index.enabled = true", code="index_off")
        self._sweep_unwatched()
        async with self._reading:
            try:
                return await finish_in_thread(work, self._reader)
            except IndexFailed as failure:
                self._rebuild_if_damaged(failure)
                raise

    def _rebuild_if_damaged(self, failure: IndexFailed) -> None:
        """Have the index made anew if it is damaged: the builder does not read all that it wrote. That of another
        process hears of it with the next change."""
        if failure.code == DAMAGED:
            with suppress(OSError):
                report_damage(self._database)
            self.on_disk_changed(())

    def _sweep_unwatched(self) -> None:
        """Have all files compared, now and then, where not all of them are watched."""
        is_followed = self._watcher is not None and not self._watcher.is_partial
        if not is_followed and monotonic() - self._swept > _SWEEP_SECONDS:
            self._swept = monotonic()
            self._link.send(())

    async def find_symbols(self, names: Iterable[str]) -> Mapping[str, tuple[SymbolPlace, ...]]:
        """Return where names are defined ("name", "Class.method"), best first; without those that are nowhere."""
        symbol_names = tuple(names)
        try:
            return await self.read(lambda reader: reader.find_symbols(symbol_names))
        except IndexFailed:
            return {}

    async def build_repo_map(self, budget_tokens: int, focus: Sequence[str], may_show: Callable[[str], bool]) -> str:
        """Return the signatures of what is most used in the files that `may_show` allows, of those in `focus` first,
        within a budget; "" before the index was built. What was loaded before a change serves until that is, too."""
        try:
            if self._map is None and (await self.read(IndexReader.read_status)).state == "building":
                return ""  # of a part of the files
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
        """Have the map loaded, once for all who wait for it."""
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
        """Load the references of the project as they are now. Raises `IndexFailed`."""

        def load() -> tuple[Generation, RepoMap]:
            reader = IndexReader(self._database)  # of its own: on a large project others would wait for seconds
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
        """End the builder, if it is ours, and close the index. Safe to call twice. An unwatched run does not wait for
        its work: the next builder goes on from what was committed."""
        self._enabled = False
        self._status = replace(self._status, state="off")
        await self._tasks.cancel()
        await self._link.close(at_once=self._watcher is None)
        async with self._reading:
            self._reader.close()
