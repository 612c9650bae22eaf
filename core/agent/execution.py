"""One command under way in a box: its layer, its output and its end, which comes exactly once.

The layer is opened before the command and absorbed after it, or dropped when the user stopped it. What only looks (Ask
and Plan) has no layer: the box holds its effects in memory, and they are gone with it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from core.agent.checks import checked
from core.agent.command_output import CommandOutput
from core.agent.effects_line import effects_line
from core.agent.room_watch import RoomWatch
from core.agent.shell_state import ShellState, ShellWitness, readable
from core.errors import AgentTuiError
from core.protocol.events import AnyEvent, CheckRecorded, EffectsRecorded, JobStarted, ModeName, Notice, ShellMoved
from core.protocol.review import Change, Check, FileState, Origin
from core.sandbox.box import Box, BoxSpec, Exit, Limits, Running, Tier
from core.sandbox.environment import command_environment
from core.sandbox.plain_output import plain
from core.sandbox.result import CommandResult
from core.sessions.debugging import DebugState
from core.shadow import LayerDirs, Shadow
from core.workspace import Workspace
from core.workspace.secret_values import Veil, values_of
from core.workspace.withheld import Kept

JOB_OUTPUT = 64 << 20  # bytes that a command in the background may write before it is ended
DROPPED = "Stopped by the user; what it had changed until then was dropped."
NO_ROOM = "Ended because {}; what it had changed was dropped."
HIDDEN = "Values that stand in files with secrets were taken out of what it printed."
LOST = "The box ended before the command did; what the command had changed was dropped."


class BoxSource(Protocol):
    """How a session comes to its box, which is found once, by really trying."""

    @property
    def tier(self) -> Tier:
        """`Tier.NONE` until one was found."""
        ...

    async def find(self) -> Box | None:
        """None: this machine can't hold a command's effects. Raises nothing."""
        ...

    def words(self) -> str:
        """What holds a command's effects, in words for the user."""
        ...


class TerminalState(Protocol):
    """What a terminal reads of the session's fold; live."""

    @property
    def mode(self) -> ModeName: ...

    @property
    def changes(self) -> Mapping[str, Change]: ...

    @property
    def shell(self) -> ShellMoved: ...

    @property
    def debug(self) -> DebugState: ...

    @property
    def jobs(self) -> Mapping[str, JobStarted]: ...

    @property
    def job_count(self) -> int: ...


def memory_bound() -> int:
    """Bytes of memory that one command may take: three quarters of the machine's, so that the rest of it goes on."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4 * 3


async def no_way_out() -> Path | None:
    """Without a proxy there is no network at all."""
    return None


class Ground(Struct, frozen=True, kw_only=True):
    """What the commands of a session stand on. `emit_apart` is for what belongs to no turn. `checks` are the user's own
    patterns of commands that check; `hidden`, `withheld`, `readable` and `cache` as a box has them."""

    workspace: Workspace
    shadow: Shadow
    state: TerminalState
    emit: Callable[[AnyEvent], None]
    emit_apart: Callable[[AnyEvent], None]
    directory: Path
    box: BoxSource
    checks: Callable[[], tuple[str, ...]] = tuple
    withheld: Callable[[], Kept] = Kept
    readable: Callable[[], tuple[Path, ...]] = tuple
    hidden: tuple[Path, ...] = ()
    cache: Path | None = None
    proxy: Callable[[], Awaitable[Path | None]] = no_way_out

    def environment(self) -> dict[str, str]:
        """What a session's shell begins with."""
        return command_environment(os.environ)

    def made_cache(self) -> Path | None:
        """The cache of commands; a disk that refuses it costs speed and nothing else."""
        try:
            if self.cache is not None:
                self.cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            return None
        return self.cache


class Order(Struct, frozen=True, kw_only=True):
    """What is to be run. `keeps`: its effects wait for a review, else they are discarded. `seconds` None: a job.

    `raw`: whoever listens gets the output byte for byte (see `BoxSpec`); the result has plain text in any case.
    `over`: layers that lie over everything else, for this order alone. `on_errors` gets what it writes to standard
    error; without it both outputs are one.
    """

    command: str
    origin: Origin
    keeps: bool = True
    seconds: float | None = 120.0
    raw: bool = False
    over: tuple[Path, ...] = ()
    env: Mapping[str, str] = {}
    on_errors: Callable[[str], None] | None = None

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """That of the shell, with what only this order has."""
        return {**base, **self.env}


class Execution:
    """One order being carried out. `begin`, then either `end` or `abandon`."""

    def __init__(self, ground: Ground, order: Order, shell: ShellState, on_output: Callable[[str], None]) -> None:
        self.order = order
        self.output = CommandOutput(ground.directory, order.origin.call)
        self._veil = Veil(self._show)
        self.witness = ShellWitness(self._veil.feed)
        self._ground = ground
        self._shell = shell
        self._began_in = shell.directory
        self._on_output = on_output
        self._layer: LayerDirs | None = None
        self._started_ns = 0
        self._proxy: Path | None = None
        self._room: RoomWatch | None = None
        self._before: dict[str, FileState] = {}
        self._kept = Kept()
        self.running: Running | None = None

    def _show(self, text: str) -> None:
        self.output.add(plain(readable(text)) if self.order.raw else text)
        self._on_output(text)

    def _show_error(self, text: str) -> None:
        assert self.order.on_errors is not None
        self.output.add(plain(readable(text)) if self.order.raw else text)
        self.order.on_errors(text)

    async def cover(self) -> None:
        """Take what stands in secret files out of the output, wherever the command has it from. Not where every byte is
        wanted as it is: there nobody but the user reads it."""
        if not self.order.raw:
            kept, root = self._kept, self._ground.workspace.root
            self._veil.values = await asyncio.to_thread(values_of, root, (*kept.covered, *kept.masked))

    def said_all(self) -> None:
        """The command prints no more."""
        self.witness.finish()
        self._veil.finish()

    async def begin(self, box: Box) -> None:
        """Start it. Raises `AgentTuiError` when that can't be done; then nothing of it ran, and nothing is left."""
        ground = self._ground
        self._kept = await asyncio.to_thread(ground.withheld)
        await self.cover()
        self._before = _pending(ground)
        lowers = (*self.order.over, *ground.shadow.lowers())
        self._proxy = await ground.proxy() if box.tier is Tier.NAMESPACES else None
        self._layer = ground.shadow.open_layer() if self.order.keeps else None
        self._room = RoomWatch(ground.directory, self._layer, ground.made_cache())
        self._started_ns = time.time_ns()
        try:
            errors = self._show_error if self.order.on_errors is not None else None
            self.running = await box.start(self._spec(lowers), self.witness.feed, errors)
        except BaseException:
            self._drop()
            raise

    def _spec(self, lowers: tuple[Path, ...]) -> BoxSpec:
        ground, order, layer = self._ground, self.order, self._layer
        is_job = order.seconds is None
        limits = Limits(seconds=order.seconds, memory=memory_bound())
        limits = replace(limits, output=JOB_OUTPUT) if is_job else limits
        return BoxSpec(
            workspace=ground.workspace.root,
            command=self.witness.script(order.command),
            env=order.environment(self._shell.environment(ground.environment())),
            lowers=lowers,
            upper=layer.upper if layer else None,
            work=layer.work if layer else None,
            cwd=self._shell.directory,
            cache=ground.made_cache(),
            hidden=(*ground.hidden, *self._kept.outside),
            withheld=self._kept.covered,
            masked=self._kept.masked,
            proxy=self._proxy,
            readable=ground.readable(),
            limits=self._room.bounded(limits) if self._room else limits,
            interactive=is_job,
            raw=order.raw,
        )

    async def end(self) -> CommandResult:
        """Wait until it is over and take in what it did. Cancelling leaves it running: then `abandon` it."""
        ended = await self._over()
        self.said_all()
        self.output.close()
        return self._result(ended, self._settled(ended))

    async def _over(self) -> Exit:
        assert self.running is not None
        assert self._room is not None
        watch = asyncio.create_task(self._room.watch(self.running))
        try:
            ended = await self.running.wait()
        finally:
            watch.cancel()
        await self._room.settle()
        return replace(ended, exit_code=None, ended="disk_full") if self._room.reason else ended

    def _settled(self, ended: Exit) -> str:
        """What it did, in one line; its layer is taken in or dropped."""
        order, layer = self.order, self._layer
        self._record_check(ended)
        if ended.ended == "lost":
            self._drop()
            return self._discarded(LOST)
        if ended.ended == "disk_full" and self._room is not None:
            self._drop()
            return self._discarded(NO_ROOM.format(self._room.reason))
        if layer is None:
            return self._discarded()
        try:
            effects = self._ground.shadow.absorb(layer, origin=order.origin, started_ns=self._started_ns)
        except AgentTuiError:  # said by whoever waits for the command; half of its effects would be worse than none
            self._drop()
            raise
        self._layer = None
        return effects_line(effects)

    def _discarded(self, *notes: str) -> str:
        effects = EffectsRecorded(
            call=self.order.origin.call, command=self.order.command, discarded=True, notes=tuple(notes)
        )
        self._ground.emit(effects)
        return effects_line(effects)

    def _record_check(self, ended: Exit) -> None:
        """Before the layer is taken in: what the command itself changed has not been checked by it. A check counts only
        for what was pending from its beginning to its end."""
        ground, order = self._ground, self.order
        if ended.exit_code is None or order.over or _pending(ground) != self._before:
            return
        found = checked(order.command, ended.exit_code, self.witness.statuses, extra=ground.checks())
        if found is None:
            return
        here = ground.workspace.root / self._began_in
        paths = tuple(os.path.relpath(here / each, ground.workspace.root) for each in found.paths)
        check = Check(call=order.origin.call, command=order.command, exit_code=found.exit_code, paths=paths)
        ground.emit(CheckRecorded(check=check))

    def _result(self, ended: Exit, effects: str) -> CommandResult:
        return CommandResult(
            exit_code=ended.exit_code,
            output=self.output.text(),
            duration_ms=ended.duration_ms,
            timed_out=ended.ended == "timed_out",
            truncated=self.output.clipped,
            ended=ended.ended,
            directory=self._shell.directory,
            effects=effects,
            notes=(*ended.notes, *self._kept.notes, *([HIDDEN] if self._veil.hidden else ())),
            spilled=self.output.file,
        )

    async def abandon(self) -> None:
        """Stop it and drop what it did, as far as that can be told at once: the box goes on with its end."""
        try:
            if self.running is not None:
                await self.running.stop()
        finally:
            self.said_all()
            self.output.close()
            self._drop()

    def _drop(self) -> None:
        layer, self._layer = self._layer, None
        if layer is None:
            return
        try:
            self._ground.shadow.drop_layer(layer)
        except AgentTuiError as problem:
            self._ground.emit(Notice(level="warning", message=problem.message, hint=problem.hint))


def _pending(ground: Ground) -> dict[str, FileState]:
    return {path: change.pending for path, change in ground.state.changes.items()}
