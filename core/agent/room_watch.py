"""Ends a command that writes more than there is room for: its layer has a share of the session's quota, and the disk
keeps a reserve (SAFETY R3, D29, D46).

A file's size is bounded by the kernel before that. Many files are not: so the free space is looked at, which costs
nothing, and the layer is measured only when the disk has lost as much as the layer may take.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from core.clock import monotonic
from core.sandbox.box import Limits, Running
from core.shadow import FLOOR, LayerDirs, bytes_below, free_bytes
from core.workspace.removing import remove

PERIOD = 0.2  # seconds
_SMALLEST = 1 << 20
CACHE_QUOTA = 5 << 30  # bytes of ~/.cache, which the commands of a project share
_PARTS = 16  # of the quota: after each the cache is measured
_HOLDS = 60.0  # seconds
_measured: dict[Path, tuple[int, float]] = {}  # for each cache, what was free, and when


class RoomWatch:
    """Of one command. `reason`: why it was ended, "" as long as it was not. Without a layer, what it writes is thrown
    away, and only the disk that `directory` is on counts."""

    def __init__(self, directory: Path, layer: LayerDirs | None, cache: Path | None = None) -> None:
        self.reason = ""
        self._cache = cache
        self._layer = layer
        self._directory = layer.upper if layer else directory
        self._room = layer.room if layer else 0
        self._measure_below = 0
        self._is_cache_full = False
        with contextlib.suppress(OSError):
            self._measure_below = free_bytes(self._directory) - self._room

    def bounded(self, limits: Limits) -> Limits:
        """The limits with no file larger than there is room for."""
        from msgspec.structs import replace

        if self._layer is None:
            return limits
        return replace(limits, file_size=max(_SMALLEST, min(limits.file_size, self._room)))

    async def watch(self, running: Running) -> None:
        """End it when it has to be ended; cancelled when it has ended by itself."""
        while not self.reason:
            await asyncio.sleep(PERIOD)
            with contextlib.suppress(OSError):
                self.reason = await self._why_full()
        await running.stop()

    async def _why_full(self) -> str:
        free = free_bytes(self._directory)
        if free < FLOOR:
            return f"the disk was nearly full ({free >> 20} MB free, {FLOOR >> 20} MB are kept)"
        if self._layer is not None and free < self._measure_below:
            taken = await asyncio.to_thread(bytes_below, self._directory)
            if taken > self._room:
                return f"it had written {taken >> 20:,} MB, and there was room for {self._room >> 20:,} MB"
            self._measure_below = free - (self._room - taken)
        return await self._why_cache_full()

    async def _why_cache_full(self) -> str:
        """Measured once a minute, and whenever much has been written since, wherever it was written to."""
        if self._cache is None:
            return ""
        free, now = free_bytes(self._cache), monotonic()
        free_then, then = _measured.get(self._cache, (0, 0.0))
        if then and now - then < _HOLDS and free > free_then - CACHE_QUOTA // _PARTS:
            return ""
        _measured[self._cache] = (free, now)
        taken = await asyncio.to_thread(bytes_below, self._cache)
        if taken <= CACHE_QUOTA:
            return ""
        self._is_cache_full = True
        return f"~/.cache held {taken >> 20:,} MB, and {CACHE_QUOTA >> 20:,} MB is the most; it is emptied"

    async def settle(self) -> None:
        """When all of the command is gone: a cache that was full is begun anew."""
        if self._is_cache_full and self._cache is not None:
            await asyncio.to_thread(remove, self._cache)
            _measured.pop(self._cache, None)
            self._is_cache_full = False
