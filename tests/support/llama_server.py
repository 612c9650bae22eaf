"""A stand-in for llama.cpp's server that answers in the bytes of the real one (`llama_server.json`, recorded from it).

It refuses what the real one refuses: a prompt that its window can't hold, and roles that the template does not accept
in that order. Tools of a template without tools are dropped without a word, as there.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.provider_server import Request, _head, _read, _send

RECORDED: dict[str, dict[str, str]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
MODEL = "/models/smol.gguf"
PER_TOKEN = 4  # characters


@dataclass
class LlamaServer:
    """`template`: a key of `RECORDED`; `window` in tokens; `answers`: texts, the last one repeated. An answer runs on
    until `max_tokens` words, or the window, are full if `runs_away`. `held`: while it is not set, no prompt is read."""

    template: str = "smollm2"
    window: int = 4096
    answers: list[str] = field(default_factory=lambda: ["Hello there."])
    runs_away: bool = False
    held: asyncio.Event = field(default_factory=asyncio.Event)
    reading: asyncio.Event = field(default_factory=asyncio.Event)
    requests: list[Request] = field(default_factory=list)
    port: int = 0
    is_down: bool = False
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.held.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def prompts(self) -> list[Any]:
        """The bodies of the requests that were answered or refused."""
        return [request.json for request in self.requests if request.path.endswith("/chat/completions")]

    @property
    def paths(self) -> list[str]:
        return [request.path.partition("?")[0] for request in self.requests]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while not self.is_down and (request := await _read(reader)) is not None:
                self.requests.append(request)
                await self._answer(request, writer)
        self._tasks.discard(task)
        writer.close()

    async def stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        match request.path.partition("?")[0]:
            case "/v1/models":
                await _send(writer, 200, self._sized(RECORDED["smollm2"]["models"]))
            case "/props":
                await _send(writer, 200, self._sized(RECORDED[self.template]["props"]))
            case "/v1/embeddings":
                await _send(writer, 501, RECORDED["smollm2"]["embed"])
            case "/v1/chat/completions":
                await self._chat(request.json, writer)
            case _:
                error = {"code": 404, "message": "File Not Found", "type": "not_found_error"}
                await _send(writer, 404, json.dumps({"error": error}))

    def _sized(self, body: str) -> str:
        return body.replace('"n_ctx":4096', f'"n_ctx":{self.window}')

    async def _chat(self, body: Any, writer: asyncio.StreamWriter) -> None:
        messages = body["messages"]
        size = count_tokens(body, with_tools=self._takes_tools())
        if not self._accepts([message["role"] for message in messages]):
            await _send(writer, 400, RECORDED[self.template]["alternate"])
        elif size >= self.window:
            refusal = RECORDED["smollm2"]["too_long"].replace("20031", str(size)).replace("4096", str(self.window))
            await _send(writer, 400, refusal)
        else:
            await self._stream(body, size, writer)

    def _takes_tools(self) -> bool:
        return bool(json.loads(RECORDED[self.template]["props"])["chat_template_caps"]["supports_tools"])

    def _accepts(self, roles: list[str]) -> bool:
        """As Gemma's template has it; Mistral's leaves out what belongs to calls."""
        if self.template == "gemma-2":
            roles = roles[1:] if roles[:2] == ["system", "user"] else roles
            return all((role == "user") == (index % 2 == 0) for index, role in enumerate(roles))
        if self.template == "mistral-nemo":
            users = [role for role in roles if role not in {"tool", "system"}]
            return all(first != second or first == "assistant" for first, second in itertools.pairwise(users))
        return True

    async def _stream(self, body: Any, size: int, writer: asyncio.StreamWriter) -> None:
        place = min(len(self.prompts), len(self.answers)) - 1
        words = self.answers[place].split(" ")
        room = min(body.get("max_tokens") or self.window, self.window - size)
        words, is_cut = (words * room, True) if self.runs_away else (words, len(words) > room)
        writer.write(_head(200, "text/event-stream", {"Connection": "close"}))
        await self._read_prompt(size, writer, tells=bool(body.get("return_progress")))
        for number, word in enumerate(words[:room]):
            writer.write(_chunk({"content": word if number == 0 else f" {word}"}))
        writer.write(_chunk({}, finish_reason="length" if is_cut else "stop"))
        used = min(len(words), room)
        usage = {"completion_tokens": used, "prompt_tokens": size, "total_tokens": size + used}
        writer.write(_event({"choices": [], "object": "chat.completion.chunk", "usage": usage}))
        writer.write(b"data: [DONE]\n\n")
        await writer.drain()
        writer.close()

    async def _read_prompt(self, size: int, writer: asyncio.StreamWriter, *, tells: bool) -> None:
        first = {"role": "assistant", "content": None}
        for processed in (0, size // 2, size):
            if tells:
                progress = {"total": size, "cache": 0, "processed": processed, "time_ms": processed}
                writer.write(_chunk(first, prompt_progress=progress))
                await writer.drain()
            if processed == size // 2:
                self.reading.set()
                await self.held.wait()
        writer.write(_chunk(first))


def count_tokens(body: Any, *, with_tools: bool) -> int:
    """The size of a prompt as this server counts it."""
    text = json.dumps([body["messages"], body.get("tools") if with_tools else None])
    return len(text) // PER_TOKEN


def _chunk(delta: dict[str, Any], finish_reason: str | None = None, **more: Any) -> bytes:
    choice = {"finish_reason": finish_reason, "index": 0, "delta": delta}
    return _event({"choices": [choice], "model": MODEL, "object": "chat.completion.chunk", **more})


def _event(data: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


@contextlib.asynccontextmanager
async def llama_server(template: str = "smollm2", **fields: Any) -> AsyncIterator[LlamaServer]:
    """Run the stand-in while the block lasts."""
    server = LlamaServer(template, **fields)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        await server.stop()
