from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from core.providers.connection.endpoint import Endpoint
from core.providers.openai.provider import OpenAIProvider
from tests.support import provider_server
from tests.support.provider_calls import ask


async def answer_of(*options: str):
    """What the server answers as a program of its own, started from somewhere else."""
    command = [sys.executable, str(Path(provider_server.__file__)), "--port", "0", *options]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, cwd="/")
    assert process.stdout is not None
    try:
        line = (await process.stdout.readline()).decode().strip()
        provider = OpenAIProvider(Endpoint(id="openai", label="It", base_url=line.removeprefix("OPENAI_BASE_URL=")))
        answer = await ask(provider)
        await provider.close()
        return answer
    finally:
        process.terminate()
        await process.wait()


async def test_it_plays_a_script(tmp_path):
    script = tmp_path / "steps.json"
    script.write_text(json.dumps([{"text": "from a file", "calls": [{"name": "grep", "arguments": {"a": 1}}]}]))
    answer = await answer_of("--script", str(script))
    assert answer.text == "from a file"
    assert answer.calls[0]["name"] == "grep"


async def test_it_sends_so_many_tokens():
    answer = await answer_of("--tokens", "300")
    assert len(answer.text.split()) == 300
