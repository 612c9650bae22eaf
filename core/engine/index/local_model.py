"""A model of meaning on this machine, asked as the remote ones are: a process of its own, while it is used."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec

from core.errors import ProviderError
from core.index.minilm import DIMENSIONS, MINILM, VectorAnswer, VectorRequest, build_model_command
from core.records import decode_json

_TOGETHER: Final = 8
"""Texts of a request: a question waits for no more of them than that."""

_END_SECONDS: Final = 0.3
_LINE_LIMIT: Final = 1 << 20


class LocalModel:
    """An `EmbeddingProvider`. Its process is started with the first texts, and again when it has died."""

    name = MINILM

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    async def embed(self, model: str, texts: Sequence[str]) -> list[list[float]]:
        """Return the vector of each text, in their order. Raises `ProviderError`."""
        vectors: list[list[float]] = []
        for begin in range(0, len(texts), _TOGETHER):
            async with self._turn:
                vectors += await self._ask(VectorRequest(tuple(texts[begin : begin + _TOGETHER])))
        return vectors

    async def _ask(self, request: VectorRequest) -> list[list[float]]:
        """Return the answer to one request, whole: one that nobody waits for any more is not that of the next."""
        process = await self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(msgspec.json.encode(request) + b"\n")
            await process.stdin.drain()
            answer = decode_json(await process.stdout.readline(), VectorAnswer)
        except asyncio.CancelledError:
            await self._kill(process)
            raise
        except (OSError, ValueError, msgspec.DecodeError) as problem:
            await self._kill(process)
            raise ProviderError(f"the process of {MINILM} has died.", code="bad_answer") from problem
        if answer.problem:
            raise ProviderError(answer.problem, code="bad_answer")
        if [len(vector) for vector in answer.vectors] != [DIMENSIONS] * len(request.texts):
            raise ProviderError(f"{MINILM} answered no vectors of {DIMENSIONS} numbers.", code="bad_answer")
        return [list(vector) for vector in answer.vectors]

    async def _start(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *build_model_command(),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.DEVNULL,
                    limit=_LINE_LIMIT,
                    start_new_session=True,
                    env={**os.environ, "TMPDIR": tempfile.gettempdir()},
                )
            except OSError as problem:
                raise ProviderError(f"the process of {MINILM} can't be started: {problem}.") from problem
        return self._process

    async def _kill(self, process: asyncio.subprocess.Process) -> None:
        self._process = None
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()

    async def close(self) -> None:
        """End the process. Safe to call twice."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(_END_SECONDS):
                await process.wait()
        except TimeoutError:
            await self._kill(process)
