"""The engine's end of the socket on which a running command gets edits; see `core.sandbox.inside.live_edits`."""

from __future__ import annotations

import array
import asyncio
import errno
import marshal
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from core.sandbox.box import LiveEdit
from core.workspace.file_names import to_os_name

_SECONDS = 10.0


class EditChannel:
    """Sends edits to one box; implements `core.sandbox.box.EditSink`."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setblocking(False)
        self._count = 0
        self._sending = asyncio.Lock()

    @contextmanager
    def open_other_end(self) -> Iterator[int]:
        """Return the descriptor of the other end, which is closed here afterwards."""
        try:
            yield self._theirs.fileno()
        finally:
            self._theirs.close()

    async def send(self, edit: LiveEdit) -> None:
        """See `EditSink`."""
        async with self._sending:
            await self._send(edit)

    async def _send(self, edit: LiveEdit) -> None:
        descriptors = list[int]()
        mode, modified_ns = 0, 0
        try:
            if edit.source is not None:
                stats = edit.source.lstat()
                mode, modified_ns = stat.S_IMODE(stats.st_mode), stats.st_mtime_ns
                if edit.kind == "file":
                    descriptors.append(os.open(edit.source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC))
            self._count += 1
            path, target = to_os_name(edit.path), os.fsencode(edit.target)
            packet = (self._count, path, edit.kind, mode, modified_ns, target, edit.is_forced)
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
            self._ours.sendmsg([marshal.dumps(packet)], rights)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        async with asyncio.timeout(_SECONDS):
            await self._wait_for_answer()

    async def _wait_for_answer(self) -> None:
        """Wait for the answer to the last edit; one to an earlier edit, which came too late, is ignored."""
        loop = asyncio.get_running_loop()
        while True:
            packet = await loop.sock_recv(self._ours, 64)
            if not packet:
                raise ConnectionResetError(errno.ECONNRESET, "the command has ended")
            number, error = marshal.loads(packet)
            if number == self._count:
                if error:
                    raise OSError(error, os.strerror(error))
                return

    def close(self) -> None:
        """End the channel; a waiting `send` fails."""
        with suppress(OSError):
            self._ours.shutdown(socket.SHUT_RDWR)
        self._ours.close()
