"""agent-tui as a user starts it, talking to a local model server through the real SDK."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.terminal import Terminal

ROOT = Path(__file__).resolve().parent.parent
BARE = ROOT / "benchmarks" / "bare_app.py"
STOCK = ROOT / "benchmarks" / "stock_markdown.py"
PLAIN_SDK = ROOT / "benchmarks" / "plain_sdk.py"
SERVER = ROOT / "tests" / "support" / "provider_server.py"
PROGRAM = (sys.executable, str(ROOT / "agent_tui.py"))
MODEL = "openai/bench-1"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answer(text: str, **more: Any) -> dict[str, Any]:
    """A step of the model server that says `text`; see `Step` in its module for what else it can do."""
    return {"text": text, **more}


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """A step that calls one tool."""
    return {"calls": [{"name": tool, "arguments": arguments}]}


@contextlib.contextmanager
def model_server(*steps: Mapping[str, Any]) -> Iterator[str]:
    """The OpenAI base URL of a model server in a process of its own, for as long as the block lasts.

    Request n is answered with step n, all further ones with the last step.
    """
    port = _free_port()
    with tempfile.TemporaryDirectory(prefix="agent-tui-bench-") as folder:
        script = Path(folder, "steps.json")
        script.write_text(json.dumps(steps or [answer("Hello.")]), "utf-8")
        argv = [sys.executable, str(SERVER), "--port", str(port), "--script", str(script)]
        server = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
        try:
            _wait_for(port)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.kill()
            server.wait()


def _wait_for(port: int) -> None:
    for _ in range(500):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.1):
            return
        time.sleep(0.02)
    raise TimeoutError("the model server does not answer")


def project(folder: Path, files: int) -> Path:
    """A git-free project of so many small files, a hundred in each directory."""
    for index in range(files):
        path = folder / f"package{index // 100:03}" / f"module{index % 100:02}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"VALUE = {index}\n", "utf-8")
    return folder


@contextlib.contextmanager
def home() -> Iterator[Path]:
    """A home directory that nobody has used yet."""
    with tempfile.TemporaryDirectory(prefix="agent-tui-bench-") as folder:
        yield Path(folder)


def environment(folder: Path, url: str = "") -> dict[str, str]:
    """A clean environment with its state below `folder` and, with `url`, keys for that server."""
    variables = {name: os.environ[name] for name in ("PATH", "LANG", "VIRTUAL_ENV") if name in os.environ}
    served = {"OPENAI_BASE_URL": url, "ANTHROPIC_BASE_URL": url.removesuffix("/v1")} if url else {}
    served |= dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY"), "bench") if url else {}
    state = {"AGENT_TUI_STATE_DIR": str(folder / "state"), "AGENT_TUI_CONFIG_DIR": str(folder / "config")}
    keyring = {"PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    return {
        **variables,
        **served,
        **state,
        **keyring,
        "HOME": str(folder),
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
    }


@contextlib.contextmanager
def screen(
    directory: Path, env: Mapping[str, str], arguments: Sequence[str] = ("--model", MODEL), *, columns: int = 120
) -> Iterator[Terminal]:
    """The program on a pseudo-terminal, in `directory`."""
    with Terminal([*PROGRAM, str(directory), *arguments], columns=columns, cwd=directory, env=env) as terminal:
        yield terminal
