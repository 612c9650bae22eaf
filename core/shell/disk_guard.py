"""The disk guard: ends a command that writes more than its quota, or fills the disk.

A layer has a share of the session's quota, and the disk has a reserve. The kernel limits the size of single files. For
many files, the guard polls the free space, which is cheap, and measures the layer only when the free space has shrunk
by the layer's quota.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

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
_CACHE_PARTS = 16  # the cache is measured after every such part of the quota is written
_MEASUREMENT_LIFETIME = 60.0  # seconds
_SHORT_WALK = 0.1  # seconds
_cache_walks: dict[Path, tuple[float, float]] = {}  # duration and start of the last walk, by cache
_cache_measurements: dict[Path, tuple[int, float]] = {}  # free bytes and time of the last measurement, by cache


class DiskGuard:
    """The guard of one command. `reason`: why it was ended, "" = it was not.

    Without a layer, the command's changes are dropped, and only the free space of `directory` counts.
    """

    def __init__(self, directory: Path, layer: CommandLayer | None, cache: Path | None = None) -> None:
        self.reason = ""
        self._cache = cache
        self._layer = layer
        self._directory = layer.upper if layer else directory
        self._quota = layer.capacity if layer else 0
        self._measure_below = 0
        self._is_cache_full = False
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
        return await self._find_cache_reason()

    async def _find_cache_reason(self) -> str:
        """Return an explanation if the cache is too large, else "". It is measured once a minute, and after many
        writes."""
        if self._cache is None:
            return ""
        free, now = get_free_bytes(self._cache), monotonic()
        free_then, last_measurement = _cache_measurements.get(self._cache, (0, 0.0))
        if (
            last_measurement
            and now - last_measurement < _MEASUREMENT_LIFETIME
            and free > free_then - CACHE_QUOTA // _CACHE_PARTS
        ):
            return ""
        _cache_measurements[self._cache] = (free, now)
        used_bytes = await asyncio.to_thread(measure_tree, self._cache)
        if used_bytes <= CACHE_QUOTA:
            return ""
        self._is_cache_full = True
        return f"~/.cache was at {used_bytes >> 20:,} MB of {CACHE_QUOTA >> 20:,} MB; it is emptied"

    async def _strip_cache(self, cache: Path) -> None:
        """Strip privileges in the cache; in a large one at most once a minute, since that takes longer than most
        commands."""
        took, last_walk = _cache_walks.get(cache, (0.0, 0.0))
        began = monotonic()
        if took < _SHORT_WALK or began - last_walk > _MEASUREMENT_LIFETIME:
            await asyncio.to_thread(strip_privileges, cache)
            _cache_walks[cache] = (monotonic() - began, began)

    async def settle_cache(self) -> None:
        """Clean the cache after the command has ended: empty a full cache, else strip setuid bits and capabilities."""
        if self._cache is not None and not self._is_cache_full:
            await self._strip_cache(self._cache)
        if self._is_cache_full and self._cache is not None:
            await asyncio.to_thread(remove_path, self._cache)
            _cache_measurements.pop(self._cache, None)
            self._is_cache_full = False
