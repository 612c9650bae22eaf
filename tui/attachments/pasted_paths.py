"""Paths in a paste: the text that a terminal types when a file is dropped on it, with any terminal's quoting."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_KINDS: Final = "png jpg jpeg jpe gif webp bmp tif tiff ico avif heic heif jxl pdf"
ATTACHABLE_SUFFIXES: Final = frozenset(f".{kind}" for kind in _KINDS.split())
WSL_VARIABLES: Final = ("WSL_DISTRO_NAME", "WSL_INTEROP")
MAX_PASTE_LENGTH: Final = 8_000  # characters of a paste that can be paths
MAX_PATHS: Final = 20
_DRIVE: Final = re.compile(r"([A-Za-z]):[\\/](?!/)")


def is_wsl(environment: Mapping[str, str] = os.environ) -> bool:
    """True if Windows is the desktop."""
    return any(map(environment.get, WSL_VARIABLES))


def parse_pasted_paths(text: str, *, wsl: bool = False) -> tuple[str, ...]:
    """Parse a paste as absolute paths; () if there is any other word in it or one has no suffix that can be attached.

    Quoted, escaped by backslashes, as `file://` addresses, several on a line or one on each; `wsl`: Windows paths are
    those of the drives below /mnt. Pure: the disk is not looked at.
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
    """Return the same paths, absolute, if each of them is a file; else ()."""
    try:
        resolved_paths = [Path(name).expanduser() for name in paths]
        return tuple(map(str, resolved_paths)) if all(path.is_file() for path in resolved_paths) else ()
    except (OSError, RuntimeError, ValueError):
        return ()
