"""Standard input and output as the two ends of a line to one client. Each is closed once, and before the loop ends.

A pipe's transport, unlike a socket's, does not notice that it has been closed already: aborted again, it tells a
protocol that is gone, and the loop prints that fault as a traceback.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys

from msgspec import Struct


class StandardStreams(Struct, eq=False, frozen=True):
    """`reader` gives what the client writes; what it is to read is written to `writer`."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    _input: asyncio.ReadTransport

    async def close(self) -> None:
        """Close both, without waiting for a client that does not read. What is closed already stays as it is."""
        output = self.writer.transport
        if not output.is_closing() or output.get_write_buffer_size():
            output.abort()
        self._input.close()
        await asyncio.sleep(0)  # the loop closes the descriptors in its next round


async def open_standard_streams(channel: int, *, limit: int) -> StandardStreams:
    """Return the streams over standard input and `channel`, a copy of standard output, which is closed with them.
    `limit`: bytes of a line. Raises `ValueError` where one of them is no pipe, socket or terminal."""
    for descriptor in (0, channel):
        if not _can_be_awaited(descriptor):
            raise ValueError(f"descriptor {descriptor} is no pipe, socket or terminal")
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=limit, loop=loop)
    source, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    try:
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.streams.FlowControlMixin(loop), os.fdopen(channel, "wb", buffering=0)
        )
    except ValueError:
        source.close()
        raise
    return StandardStreams(reader, asyncio.StreamWriter(transport, protocol, None, loop), source)


def _can_be_awaited(descriptor: int) -> bool:
    """Return True for a pipe, socket or terminal. asyncio takes other devices, such as /dev/null, and then waits for
    good, as the kernel never tells when they are ready."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)
