"""A model server in a thread of this process that notes when requests came and answers went."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from tests.support.provider_server import ProviderServer, Request
from tests.support.provider_streams import Step


@dataclass
class ClockedServer(ProviderServer):
    """`came` and `sent`: when each request of a model was there and its answer was sent; seconds."""

    came: list[float] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)

    async def _answer(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if request.method != "POST":  # it asks what the model can do, beside the turn
            return await super()._answer(request, reader, writer)
        self.came.append(time.perf_counter())
        again = await super()._answer(request, reader, writer)
        self.sent.append(time.perf_counter())
        return again


@contextlib.contextmanager
def clocked_server(steps: Sequence[Step], *, repeat: bool = False) -> Iterator[ClockedServer]:
    """A server for as long as the block lasts, at `port`. `repeat`: the last step answers all that follow."""
    server = ClockedServer({"": list(steps)}, repeat=repeat)
    started: Future[int] = Future()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=_serve, args=(loop, server, started), daemon=True)
    thread.start()
    try:
        server.port = started.result(10)
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


def _serve(loop: asyncio.AbstractEventLoop, server: ProviderServer, started: Future[int]) -> None:
    async def listen() -> asyncio.Server:
        listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        started.set_result(listener.sockets[0].getsockname()[1])
        return listener

    asyncio.set_event_loop(loop)
    listener = loop.run_until_complete(listen())
    loop.run_forever()
    listener.close()
    loop.run_until_complete(server.stop())
    loop.close()
