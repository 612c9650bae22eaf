"""Copying a text: through the terminal (OSC 52), the desktop's tools, and tmux; one function returns the receivers.

A terminal does not confirm a copy, and some never do it, so all available tools are used as well. They read the text
from standard input, run in the background and with a timeout.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from tui.terminal.capabilities import detect_multiplexer
from tui.terminal.sequences import format_clipboard

COPY_TIMEOUT: Final = 3.0  # seconds


class CopyTool(NamedTuple):
    """A program that reads a text from standard input, and the variables any of which shows that it applies."""

    name: str
    command: tuple[str, ...]
    variables: tuple[str, ...]
    encoding: str = "utf-8"


_TOOLS: Final = (
    CopyTool("tmux", ("tmux", "load-buffer", "-w", "-"), ("TMUX",)),
    CopyTool("wl-copy", ("wl-copy",), ("WAYLAND_DISPLAY",)),
    CopyTool("xclip", ("xclip", "-selection", "clipboard", "-in"), ("DISPLAY",)),
    CopyTool("xsel", ("xsel", "--clipboard", "--input"), ("DISPLAY",)),
    CopyTool("clip.exe", ("clip.exe",), ("WSL_DISTRO_NAME", "WSL_INTEROP"), "utf-16"),
)
_APPLE: Final = CopyTool("pbcopy", ("pbcopy",), ())
# Two that do the same; the first that is there is used.
_ALIKE: Final = (("wl-copy", "xclip", "xsel"),)


class CopyReport(NamedTuple):
    """The names of all receivers of a text; without any, `hint` says how to fix that."""

    taken_by: tuple[str, ...]
    hint: str = ""


def find_copy_tools(
    environment: Mapping[str, str] = os.environ,
    platform: str = sys.platform,
    find_executable: Callable[[str], str | None] = shutil.which,
) -> list[CopyTool]:
    """Find the available tools: tmux's, and one of the desktop's."""
    candidates = (*_TOOLS, _APPLE) if platform == "darwin" else _TOOLS
    tools = [
        tool
        for tool in candidates
        if (not tool.variables or any(map(environment.get, tool.variables))) and find_executable(tool.command[0])
    ]
    for equivalents in _ALIKE:
        same = [tool for tool in tools if tool.name in equivalents]
        tools = [tool for tool in tools if tool not in same[1:]]
    return tools


async def copy_text(text: str, write: Callable[[str], None] | None, tools: list[CopyTool] | None = None) -> CopyReport:
    """Copy a text. `write` writes a sequence to the terminal; None: there is none. Never raises."""
    taken_by = []
    sequence = format_clipboard(text, detect_multiplexer(os.environ))
    if write is not None and sequence:
        write(sequence)
        taken_by.append("the terminal")
    tools = find_copy_tools() if tools is None else tools
    results = await asyncio.gather(*(_run(tool, text) for tool in tools))
    taken_by += [tool.name for tool, is_done in zip(tools, results, strict=True) if is_done]
    if taken_by:
        return CopyReport(tuple(taken_by))
    too_long = "Too long for the terminal. " if write is not None and not sequence else ""
    return CopyReport((), f"{too_long}Install wl-clipboard or xclip, or copy less of it.")


async def _run(tool: CopyTool, text: str) -> bool:
    """Pass the text to a tool. Return True if the tool accepted it."""
    try:
        process = await asyncio.create_subprocess_exec(
            *tool.command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return False
    try:
        async with asyncio.timeout(COPY_TIMEOUT):
            await process.communicate(text.encode(tool.encoding, "replace"))
    except TimeoutError:
        process.kill()
        await process.wait()
        return False
    return process.returncode == 0
