"""Files from the desktop's clipboard, and paths in pasted text.

A terminal hands out only the text of a clipboard, so the desktop's own tools read the rest. The session (Wayland, X11,
macOS, WSL) determines the tool; a missing tool is reported with the command that installs it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

from core.patterns import compile_lazily
from core.protocol.commands import MAX_ATTACHMENT_BYTES

_KINDS: Final = "png jpg jpeg jpe gif webp bmp tif tiff ico avif heic heif jxl pdf"
ATTACHABLE_SUFFIXES: Final = frozenset(f".{kind}" for kind in _KINDS.split())
WSL_VARIABLES: Final = ("WSL_DISTRO_NAME", "WSL_INTEROP")
MAX_PASTE_LENGTH: Final = 8_000  # characters of a paste that can be paths
MAX_PATHS: Final = 20
_DRIVE: Final = compile_lazily(r"([A-Za-z]):[\\/](?!/)")
DesktopKind = Literal["wayland", "x11", "macos", "wsl", "none"]
READ_TIMEOUT: Final = 4.0
IMAGE_TYPES: Final[tuple[str, ...]] = ("image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp", "image/tiff")
_FILE_LIST_TYPES: Final[tuple[str, ...]] = ("text/uri-list", "x-special/gnome-copied-files")
_TEXT_TYPES: Final[tuple[str, ...]] = ("text/plain;charset=utf-8", "UTF8_STRING", "text/plain", "STRING", "TEXT")
_APPLE_SCRIPT: Final = "get the clipboard as «class PNGf»"
_POWERSHELL_SCRIPT: Final = (
    "Add-Type -AssemblyName System.Windows.Forms;"
    "$i=[System.Windows.Forms.Clipboard]::GetImage();"
    "if($i){$m=New-Object IO.MemoryStream;$i.Save($m,[System.Drawing.Imaging.ImageFormat]::Png);"
    "[Console]::Out.Write([Convert]::ToBase64String($m.ToArray()))}"
)
SSH_HINT: Final = (
    "Over SSH, send it from your own machine: `wl-paste -t image/png | ssh HOST agent-tui image` "
    "(`xclip -selection clipboard -t image/png -o`, `pngpaste -`), then paste the path that it prints."
)


def is_wsl(environment: Mapping[str, str] = os.environ) -> bool:
    """True if Windows is the desktop."""
    return any(map(environment.get, WSL_VARIABLES))


def parse_pasted_paths(text: str, *, wsl: bool = False) -> tuple[str, ...]:
    """Parse a paste as absolute paths; () if it contains any other word, or a path without an attachable suffix.

    Paths may be quoted, escaped by backslashes, `file://` addresses, several on a line or one per line; `wsl`: Windows
    paths are mapped to the drives below /mnt. The function is pure and does not access the disk.
    """
    text = text.strip().strip("\0")
    if not text or len(text) > MAX_PASTE_LENGTH:
        return ()
    all_paths: list[str] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        paths = _parse_line(line, wsl=wsl)
        if not paths:
            return ()
        all_paths += paths
    return tuple(dict.fromkeys(all_paths)) if len(all_paths) <= MAX_PATHS else ()


def _parse_line(line: str, *, wsl: bool) -> list[str]:
    """Parse a line, as one path first: a terminal that does not quote leaves its spaces as they are."""
    path = _parse_path(_strip_quotes(line), wsl=wsl)
    return [path] if path and not _may_hold_several(line) else _parse_words(line, wsl=wsl)


def _strip_quotes(line: str) -> str:
    return line[1:-1] if len(line) > 1 and line[0] == line[-1] and line[0] in "'\"" else line


def _may_hold_several(line: str) -> bool:
    """True if a line may be several paths, or one that is escaped."""
    if _DRIVE.match(_strip_quotes(line)):
        return False
    return "\\" in line or re.search(r"[\s'\"](/|~|file://|['\"])", line) is not None


def _parse_words(line: str, *, wsl: bool) -> list[str]:
    try:
        words = shlex.split(line)
    except ValueError:
        return []
    paths = [_parse_path(word, wsl=wsl) for word in words]
    return paths if all(paths) else []


def _parse_path(word: str, *, wsl: bool) -> str:
    """Return one absolute path, "" for anything else."""
    if word.startswith("file:"):
        try:
            address = urlsplit(word)
        except ValueError:
            return ""
        word = unquote(address.path) if address.netloc in {"", "localhost"} else ""
    if wsl and (drive := _DRIVE.match(word)):
        word = f"/mnt/{drive[1].lower()}/" + word[3:].replace("\\", "/")
    is_path = word.startswith(("/", "~/")) and "\0" not in word
    return word if is_path and Path(word).suffix.lower() in ATTACHABLE_SUFFIXES else ""


def resolve_existing(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the same paths, absolute, if all of them are files; else ()."""
    try:
        resolved_paths = [Path(name).expanduser() for name in paths]
        return tuple(map(str, resolved_paths)) if all(path.is_file() for path in resolved_paths) else ()
    except (OSError, RuntimeError, ValueError):
        return ()


class DesktopTool(NamedTuple):
    """A kind of desktop: the variables that identify it, its tool, and how to install that."""

    desktop: DesktopKind
    variables: tuple[str, ...]
    tool: str
    install_hint: str


_DISPLAY: Final = ("WAYLAND_DISPLAY",)


_DESKTOPS: Final = (
    DesktopTool("wayland", _DISPLAY, "wl-paste", "Install it: apt (or dnf, pacman) install wl-clipboard."),
    DesktopTool("x11", ("DISPLAY",), "xclip", "Install it: apt (or dnf, pacman) install xclip."),
    DesktopTool(
        "wsl", WSL_VARIABLES, "powershell.exe", "Allow WSL to start Windows programs ([interop] in /etc/wsl.conf)."
    ),
)


NO_DESKTOP_HINT: Final = "Paste a file's path, or type @picture.png."


@dataclass(frozen=True, slots=True)
class ClipboardContent:
    """The content: the bytes of a picture, files, or text; else `problem` and `hint` say why there is nothing."""

    data: bytes = b""
    paths: tuple[str, ...] = ()
    text: str = ""
    problem: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class ClipboardTool:
    """The clipboard tool of this session, and how to install it if it is missing ("" = it is installed)."""

    desktop: DesktopKind
    tool: str = ""
    install_hint: str = ""


def find_clipboard_tool(
    environment: Mapping[str, str] = os.environ,
    platform: str = sys.platform,
    find_program: Callable[[str], str | None] = shutil.which,
) -> ClipboardTool:
    """Find the clipboard tool: of the first detected desktop with an installed one, else of the first detected."""
    if platform == "darwin":
        return ClipboardTool("macos", "pngpaste" if find_program("pngpaste") else "osascript")
    at_hand = [candidate for candidate in _DESKTOPS if any(map(environment.get, candidate.variables))]
    desktop = next((candidate for candidate in at_hand if find_program(candidate.tool)), None)
    if desktop is not None:
        return ClipboardTool(desktop.desktop, desktop.tool)
    if at_hand:
        return ClipboardTool(at_hand[0].desktop, "", at_hand[0].install_hint)
    return ClipboardTool("none", "", SSH_HINT if environment.get("SSH_CONNECTION") else NO_DESKTOP_HINT)


def describe_clipboard() -> str:
    """Describe the clipboard in one line for `doctor`."""
    clipboard_tool = find_clipboard_tool()
    if clipboard_tool.tool:
        return f"{clipboard_tool.tool} ({clipboard_tool.desktop})"
    desktop = "" if clipboard_tool.desktop == "none" else f" for {clipboard_tool.desktop}"
    return f"none{desktop}. {clipboard_tool.install_hint}"


async def read_clipboard(clipboard_tool: ClipboardTool) -> ClipboardContent:
    """Read the clipboard. Never raises."""
    if not clipboard_tool.tool:
        name = next((desktop.tool for desktop in _DESKTOPS if desktop.desktop == clipboard_tool.desktop), "")
        problem = f"Can't read the clipboard: {name} is missing." if name else "There is no clipboard here."
        return ClipboardContent(problem=problem, hint=clipboard_tool.install_hint)
    try:
        async with asyncio.timeout(READ_TIMEOUT):
            return await _READERS[clipboard_tool.desktop](clipboard_tool)
    except TimeoutError:
        late = f"{clipboard_tool.tool} did not answer in {READ_TIMEOUT:.0f} s."
        return ClipboardContent(problem=late, hint="Copy it again, then try again.")
    except OSError as fault:
        problem = f"{clipboard_tool.tool} did not start: {fault.strerror}."
        return ClipboardContent(problem=problem, hint="Check that it is installed correctly.")


async def _run_tool(*command: str) -> bytes:
    """Return the output of a program, b"" if it fails; at most so much as can be attached, and one byte."""
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
        while len(data) <= MAX_ATTACHMENT_BYTES and (part := await process.stdout.read(1 << 20)):
            data += part
        if len(data) > MAX_ATTACHMENT_BYTES:
            return bytes(data[: MAX_ATTACHMENT_BYTES + 1])
        return bytes(data) if await process.wait() == 0 else b""
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # including its children, which hold the pipe open
        await process.wait()


async def _read_text(*command: str) -> str:
    return (await _run_tool(*command)).decode("utf-8", "replace")


async def _read_typed(clipboard_tool: ClipboardTool) -> ClipboardContent:
    """Read a clipboard that lists its types: X11 and Wayland."""
    lists, reads = _COMMANDS[clipboard_tool.tool]
    types = (await _read_text(*lists)).split()
    for media_type in (candidate for candidate in IMAGE_TYPES if candidate in types):
        if data := await _run_tool(*reads, media_type):
            return ClipboardContent(data=data)
    for media_type in (candidate for candidate in _FILE_LIST_TYPES if candidate in types):
        lines = (await _read_text(*reads, media_type)).splitlines()
        files = "\n".join(line for line in lines if line.startswith("file:"))
        if paths := resolve_existing(parse_pasted_paths(files)):
            return ClipboardContent(paths=paths)
    for media_type in (candidate for candidate in _TEXT_TYPES if candidate in types):
        if text := await _read_text(*reads, media_type):
            return ClipboardContent(text=text)
    return EMPTY_CLIPBOARD


async def _read_macos(clipboard_tool: ClipboardTool) -> ClipboardContent:
    if clipboard_tool.tool == "pngpaste":
        data = await _run_tool("pngpaste", "-")
    else:
        output = await _read_text("osascript", "-e", _APPLE_SCRIPT)  # «data PNGf89504E47…»
        data = _parse_hex(output.partition("PNGf")[2])
    if data:
        return ClipboardContent(data=data)
    text = await _read_text("pbpaste")
    return ClipboardContent(text=text) if text else EMPTY_CLIPBOARD


def _parse_hex(text: str) -> bytes:
    try:
        return bytes.fromhex("".join(char for char in text if char in "0123456789ABCDEFabcdef"))
    except ValueError:
        return b""


async def _read_windows(_: ClipboardTool) -> ClipboardContent:
    import base64

    shell = ("powershell.exe", "-NoProfile", "-NonInteractive")
    output = await _run_tool(*shell, "-STA", "-Command", _POWERSHELL_SCRIPT)
    with contextlib.suppress(ValueError):
        if data := base64.b64decode(output.strip(), validate=True):
            return ClipboardContent(data=data)
    text = await _read_text(*shell, "-Command", "Get-Clipboard -Raw")
    return ClipboardContent(text=text.rstrip("\r\n")) if text.strip() else EMPTY_CLIPBOARD


EMPTY_CLIPBOARD: Final = ClipboardContent(
    problem="There is no picture on the clipboard.", hint="Copy one, or paste a file's path."
)


_COMMANDS: Final = {
    "wl-paste": (("wl-paste", "--list-types"), ("wl-paste", "--no-newline", "--type")),
    "xclip": (
        ("xclip", "-selection", "clipboard", "-o", "-t", "TARGETS"),
        ("xclip", "-selection", "clipboard", "-o", "-t"),
    ),
}


_READERS: Final = {"wayland": _read_typed, "x11": _read_typed, "macos": _read_macos, "wsl": _read_windows}
