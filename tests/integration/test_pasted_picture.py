"""A picture on a real clipboard, a key in a real terminal, and the bytes that a model server gets.

With Xvfb, xclip and tmux the clipboard is the X server's and the keys are tmux's; the same way through the program is
gone with a script that answers as xclip does, on every machine.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.terminal import Terminal
from tests.support.fake_clipboard import clipboard_of
from tests.support.pictures import picture
from tests.support.program import PROGRAM, environment
from tests.support.provider_server import ProviderServer, provider_server
from tests.support.story import project_at

PNG = picture(640, 480)
needs_x11 = pytest.mark.skipif(
    not all(map(shutil.which, ("Xvfb", "xclip", "tmux"))), reason="needs Xvfb, xclip and tmux"
)
MODELS = {"anthropic": "anthropic/claude-opus-5-5", "openai": "openai/tiny-1"}


def pictures_in(value: Any) -> Iterator[bytes]:
    """The bytes of every picture of a request, whatever its wire."""
    match value:
        case {"type": "base64", "media_type": "image/png", "data": str(data)}:
            yield base64.b64decode(data)
        case str() if value.startswith("data:image/png;base64,"):
            yield base64.b64decode(value.partition(",")[2])
        case dict():
            for child in value.values():
                yield from pictures_in(child)
        case list():
            for child in value:
                yield from pictures_in(child)


@contextlib.contextmanager
def x_server(data: bytes) -> Iterator[str]:
    """The display of an X server whose clipboard holds a picture."""
    read_end, says = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(says), "-screen", "0", "64x64x24", "-nolisten", "tcp"],
        pass_fds=(says,),
        stderr=subprocess.DEVNULL,
    )
    os.close(says)
    try:
        with open(read_end, "rb") as file:  # noqa: PTH123
            display = f":{file.readline().decode().strip()}"
        put = ["xclip", "-selection", "clipboard", "-t", "image/png", "-i"]
        environment = {**os.environ, "DISPLAY": display}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run(put, input=data, env=environment, timeout=20, check=True, **quiet)  # it stays, and answers
        yield display
    finally:
        server.terminate()
        server.wait(20)


def on_desktop(server: ProviderServer, **overrides: str) -> dict[str, str]:
    variables = environment(server, TERM="xterm-256color", **overrides)
    return {name: value for name, value in variables.items() if name not in {"WAYLAND_DISPLAY", "TMUX"}}


def shown(argv: list[str], project: Path, variables: dict[str, str]) -> None:
    """Press the key for the clipboard, write what is asked, and send it; until the answer is on screen."""
    with Terminal(argv, columns=100, rows=30, cwd=project, env=variables) as screen:
        screen.wait_for(b"Ask for a change")
        screen.write(b"\x16")  # Ctrl+V
        screen.wait_for(b"[image 1: 640")
        screen.send("What is it?")
        screen.wait_for(b"A gradient of colours")


def assert_arrived(server: ProviderServer) -> None:
    (request,) = server.answered
    assert list(pictures_in(request.json)) == [PNG]
    body = json.dumps(request.json, ensure_ascii=False)
    assert "[image 1: 640×480 png" in body
    assert "What is it?" in body


@needs_x11
@pytest.mark.parametrize("wire", MODELS)
async def test_a_picture_pasted_in_tmux_over_x11_reaches_the_server_byte_for_byte(tmp_path, wire):
    project = project_at(tmp_path / "project")
    async with provider_server(["A gradient of colours."], models=["claude-opus-5-5", "tiny-1"]) as server:
        with x_server(PNG) as display:
            (tmp_path / "tmux").mkdir()
            variables = on_desktop(server, DISPLAY=display, TMUX_TMPDIR=str(tmp_path / "tmux"))
            program = [*PROGRAM, str(project), "--model", MODELS[wire]]
            argv = ["tmux", "-f", "/dev/null", "-L", "pictures", "new-session", "--", *program]
            try:
                await asyncio.to_thread(shown, argv, project, variables)
            finally:
                end = ["tmux", "-L", "pictures", "kill-server"]
                await asyncio.to_thread(subprocess.run, end, env=variables, capture_output=True, check=False)
        assert_arrived(server)


async def test_a_picture_of_a_clipboard_tool_reaches_the_server_byte_for_byte(tmp_path):
    project = project_at(tmp_path / "project")
    tools = clipboard_of(tmp_path, {"image/png": PNG, "text/html": b"<img>"}, "xclip")
    async with provider_server(["A gradient of colours."]) as server:
        variables = on_desktop(server, DISPLAY=":99", PATH=f"{tools}:{os.environ['PATH']}")
        argv = [*PROGRAM, str(project), "--model", "openai/tiny-1"]
        await asyncio.to_thread(shown, argv, project, variables)
        assert_arrived(server)
