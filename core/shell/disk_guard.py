"""The disk guard: ends a command that writes more than its quota, or fills the disk.

A layer has a share of the session's quota, and the disk has a reserve. The kernel limits the size of single files. For
many files, the guard polls the free space, which is cheap, and measures the layer only when the free space has shrunk
by the layer's quota.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from core.clock import monotonic
from core.filesystem.file_attributes import strip_privileges
from core.filesystem.removal import remove_path
from core.sandbox.box import BoxLimits, RunningCommand
from core.sandbox.tiers.dropped_changes import get_repository_layer_path
from core.shadow.layers.layer_store import MIN_FREE_BYTES, CommandLayer, get_free_bytes, measure_tree

POLL_PERIOD = 0.2  # seconds
_MIN_FILE_SIZE = 1 << 20
CACHE_QUOTA = 5 << 30  # bytes of ~/.cache, which the commands of a project share
TEMPORARY_QUOTA = 2 << 30  # bytes of /tmp, which the commands of a session share
_QUOTA_PARTS = 16  # a directory is measured after every such part of its quota is written
_MEASUREMENT_LIFETIME = 60.0  # seconds
_SHORT_WALK = 0.1  # seconds
_walks: dict[Path, tuple[float, float]] = {}  # duration and start of the last walk, by directory
_measurements: dict[Path, tuple[int, float]] = {}  # free bytes and time of the last measurement, by directory


class SharedDirectory(NamedTuple):
    """A directory that outlasts the command which writes it. `name`: its path in the box."""

    path: Path
    quota: int
    name: str


class DiskGuard:
    """The guard of one command. `reason`: why it was ended, "" = it was not.

    Without a layer, the command's changes are dropped, and only the free space of `directory` counts.
    """

    def __init__(
        self, directory: Path, layer: CommandLayer | None, cache: Path | None = None, temporary: Path | None = None
    ) -> None:
        self.reason = ""
        self._shared = [SharedDirectory(cache, CACHE_QUOTA, "~/.cache")] if cache is not None else []
        self._shared += [SharedDirectory(temporary, TEMPORARY_QUOTA, "/tmp")] if temporary is not None else []
        self._full: list[SharedDirectory] = []
        self._layer = layer
        self._directory = layer.upper if layer else directory
        self._quota = layer.capacity if layer else 0
        self._measure_below = 0
        with contextlib.suppress(OSError):
            self._measure_below = get_free_bytes(self._directory) - self._quota

    def limit_file_size(self, limits: BoxLimits) -> BoxLimits:
        """Return the limits with the file size capped at the layer's quota."""
        if self._layer is None:
            return limits
        return replace(limits, file_size=max(_MIN_FILE_SIZE, min(limits.file_size, self._quota)))

    async def watch(self, running: RunningCommand) -> None:
        """Stop the command when it exceeds a limit. Cancel this when the command has ended by itself."""
        while not self.reason:
            await asyncio.sleep(POLL_PERIOD)
            with contextlib.suppress(OSError):
                self.reason = await self._find_reason()
        await running.stop()

    async def _find_reason(self) -> str:
        free = get_free_bytes(self._directory)
        if free < MIN_FREE_BYTES:
            return f"the disk was nearly full ({free >> 20} MB free, {MIN_FREE_BYTES >> 20} MB are reserved)"
        if self._layer is not None and free < self._measure_below:
            directories = (self._directory, get_repository_layer_path(self._directory))
            used_bytes = sum([await asyncio.to_thread(measure_tree, directory) for directory in directories])
            if used_bytes > self._quota:
                return f"it had written {used_bytes >> 20:,} MB, and there was room for {self._quota >> 20:,} MB"
            self._measure_below = free - (self._quota - used_bytes)
        reasons = [await self._find_shared_reason(directory) for directory in self._shared]
        return next(filter(None, reasons), "")

    async def _find_shared_reason(self, directory: SharedDirectory) -> str:
        """Return an explanation if a shared directory is too large, else "". It is measured once a minute, and after
        many writes."""
        free, now = get_free_bytes(directory.path), monotonic()
        free_then, last_measurement = _measurements.get(directory.path, (0, 0.0))
        if (
            last_measurement
            and now - last_measurement < _MEASUREMENT_LIFETIME
            and free > free_then - directory.quota // _QUOTA_PARTS
        ):
            return ""
        _measurements[directory.path] = (free, now)
        used_bytes = await asyncio.to_thread(measure_tree, directory.path)
        if used_bytes <= directory.quota:
            return ""
        self._full.append(directory)
        return f"{directory.name} was at {used_bytes >> 20:,} MB of {directory.quota >> 20:,} MB; it is emptied"

    async def _strip(self, path: Path) -> None:
        """Strip privileges in a shared directory; in a large one at most once a minute, since that takes longer than
        most commands."""
        took, last_walk = _walks.get(path, (0.0, 0.0))
        began = monotonic()
        if took < _SHORT_WALK or began - last_walk > _MEASUREMENT_LIFETIME:
            await asyncio.to_thread(strip_privileges, path)
            _walks[path] = (monotonic() - began, began)

    async def settle_shared(self) -> None:
        """Clean the shared directories after the command has ended: empty a full one, else strip setuid bits and
        capabilities."""
        for directory in self._shared:
            if directory not in self._full:
                await self._strip(directory.path)
                continue
            await asyncio.to_thread(remove_path, directory.path)
            _measurements.pop(directory.path, None)
        self._full.clear()
