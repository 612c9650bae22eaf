"""The clipboard of the desktop, by the tools that are there for it: a terminal itself hands out text only.

Which tool is asked follows from the session at hand; one that is missing is named with what installs it. All run
beside the screen and for a limited time, and what they say is bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from core.protocol.commands import MAX_ATTACHED
from tui.attaching.paths import WSL, existing, picture_paths

Session = Literal["wayland", "x11", "macos", "wsl", "none"]
SECONDS: Final = 4.0
IMAGE_TYPES: Final[tuple[str, ...]] = ("image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp", "image/tiff")
_LISTS: Final[tuple[str, ...]] = ("text/uri-list", "x-special/gnome-copied-files")
_TEXTS: Final[tuple[str, ...]] = ("text/plain;charset=utf-8", "UTF8_STRING", "text/plain", "STRING", "TEXT")
_MAC: Final = "get the clipboard as «class PNGf»"
_POWERSHELL: Final = (
    "Add-Type -AssemblyName System.Windows.Forms;"
    "$i=[System.Windows.Forms.Clipboard]::GetImage();"
    "if($i){$m=New-Object IO.MemoryStream;$i.Save($m,[System.Drawing.Imaging.ImageFormat]::Png);"
    "[Console]::Out.Write([Convert]::ToBase64String($m.ToArray()))}"
)
OVER_SSH: Final = (
    "Over SSH, send it from your own machine: `wl-paste -t image/png | ssh HOST agent-tui image` "
    "(`xclip -selection clipboard -t image/png -o`, `pngpaste -`), then paste the path that it prints."
)


@dataclass(frozen=True, slots=True)
class Desktop:
    """A kind of desktop: what shows that it is at hand, its tool, and what installs that."""

    session: Session
    variables: tuple[str, ...]
    tool: str
    cure: str


_DESKTOPS: Final = (
    Desktop("wayland", ("WAYLAND_DISPLAY",), "wl-paste", "Install it: apt install wl-clipboard (dnf, pacman, too)."),
    Desktop("x11", ("DISPLAY",), "xclip", "Install it: apt install xclip (dnf, pacman, too)."),
    Desktop("wsl", WSL, "powershell.exe", "Let WSL start Windows programs ([interop] in /etc/wsl.conf)."),
)
NO_DESKTOP: Final = "There is no desktop here: paste the path of a file, or write @picture.png."


@dataclass(frozen=True, slots=True)
class Clip:
    """What was found: the bytes of a picture, files, or text; else `problem` and `hint` say why there is nothing."""

    data: bytes = b""
    paths: tuple[str, ...] = ()
    text: str = ""
    problem: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """The session at hand, the tool for its clipboard, and what to do where that is missing ("" = it is there)."""

    session: Session
    tool: str = ""
    cure: str = ""


def place(
    environment: Mapping[str, str] = os.environ,
    platform: str = sys.platform,
    which: Callable[[str], str | None] = shutil.which,
) -> Place:
    """Where the clipboard is: the first of the desktops at hand whose tool is there, else the first of them."""
    if platform == "darwin":
        return Place("macos", "pngpaste" if which("pngpaste") else "osascript")
    at_hand = [each for each in _DESKTOPS if any(map(environment.get, each.variables))]
    found = next((each for each in at_hand if which(each.tool)), None)
    if found is not None:
        return Place(found.session, found.tool)
    if at_hand:
        return Place(at_hand[0].session, "", at_hand[0].cure)
    return Place("none", "", OVER_SSH if environment.get("SSH_CONNECTION") else NO_DESKTOP)


def standing() -> str:
    """One line for `doctor`."""
    found = place()
    if found.tool:
        return f"{found.tool} ({found.session})"
    return f"none for {found.session}: {found.cure}" if found.session != "none" else f"none: {found.cure}"


async def read(found: Place) -> Clip:
    """What is on the clipboard. Never raises."""
    if not found.tool:
        name = next((each.tool for each in _DESKTOPS if each.session == found.session), "")
        problem = f"The clipboard can't be read: {name} is missing." if name else "There is no clipboard to read."
        return Clip(problem=problem, hint=found.cure)
    try:
        async with asyncio.timeout(SECONDS):
            return await _READERS[found.session](found)
    except TimeoutError:
        return Clip(problem=f"{found.tool} did not answer in {SECONDS:.0f} s.", hint="Copy it again, then try again.")
    except OSError as problem:
        return Clip(problem=f"{found.tool} can't be started: {problem.strerror}.", hint="Is it installed rightly?")


async def _output(*command: str) -> bytes:
    """What a program prints, b"" if it fails; at most so much as can be attached, and one byte."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout is not None
    data = bytearray()
    try:
        while len(data) <= MAX_ATTACHED and (part := await process.stdout.read(1 << 20)):
            data += part
        if len(data) > MAX_ATTACHED:
            return bytes(data[: MAX_ATTACHED + 1])
        return bytes(data) if await process.wait() == 0 else b""
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with what it may have started, which holds the pipe open
        await process.wait()


async def _typed(found: Place) -> Clip:
    """A clipboard that lists its types: X11 and Wayland."""
    lists, reads = _COMMANDS[found.tool]
    types = (await _output(*lists)).decode("utf-8", "replace").split()
    for wanted in (each for each in IMAGE_TYPES if each in types):
        if data := await _output(*reads, wanted):
            return Clip(data=data)
    for wanted in (each for each in _LISTS if each in types):
        lines = (await _output(*reads, wanted)).decode("utf-8", "replace").splitlines()
        files = "\n".join(line for line in lines if line.startswith("file:"))
        if paths := existing(picture_paths(files)):
            return Clip(paths=paths)
    for wanted in (each for each in _TEXTS if each in types):
        if text := (await _output(*reads, wanted)).decode("utf-8", "replace"):
            return Clip(text=text)
    return EMPTY


async def _mac(found: Place) -> Clip:
    if found.tool == "pngpaste":
        data = await _output("pngpaste", "-")
    else:
        told = (await _output("osascript", "-e", _MAC)).decode("utf-8", "replace")  # «data PNGf89504E47…»
        data = _from_hex(told.partition("PNGf")[2])
    if data:
        return Clip(data=data)
    text = (await _output("pbpaste")).decode("utf-8", "replace")
    return Clip(text=text) if text else EMPTY


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex("".join(each for each in text if each in "0123456789ABCDEFabcdef"))
    except ValueError:
        return b""


async def _windows(_: Place) -> Clip:
    import base64

    told = await _output("powershell.exe", "-NoProfile", "-NonInteractive", "-STA", "-Command", _POWERSHELL)
    with contextlib.suppress(ValueError):
        if data := base64.b64decode(told.strip(), validate=True):
            return Clip(data=data)
    text = await _output("powershell.exe", "-NoProfile", "-NonInteractive", "-Command", "Get-Clipboard -Raw")
    return Clip(text=text.decode("utf-8", "replace").rstrip("\r\n")) if text.strip() else EMPTY


EMPTY: Final = Clip(problem="There is no picture on the clipboard.", hint="Copy one, or paste the path of a file.")
_COMMANDS: Final = {
    "wl-paste": (("wl-paste", "--list-types"), ("wl-paste", "--no-newline", "--type")),
    "xclip": (
        ("xclip", "-selection", "clipboard", "-o", "-t", "TARGETS"),
        ("xclip", "-selection", "clipboard", "-o", "-t"),
    ),
}
_READERS: Final = {"wayland": _typed, "x11": _typed, "macos": _mac, "wsl": _windows}
