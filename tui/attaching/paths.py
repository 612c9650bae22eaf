"""Paths in a paste: what a terminal types when a file is dropped on it, in any of the ways in which terminals quote."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

SUFFIXES: Final = frozenset(
    f".{kind}"
    for kind in ("png jpg jpeg jpe gif webp bmp tif tiff ico avif heic heif jxl pdf".split())  # noqa: SIM905
)
WSL: Final = ("WSL_DISTRO_NAME", "WSL_INTEROP")  # variables
LONGEST: Final = 8_000  # characters of a paste that can be paths
MOST: Final = 20  # of them
_DRIVE: Final = re.compile(r"([A-Za-z]):[\\/](?!/)")


def is_wsl(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether Windows is the desktop."""
    return any(map(environment.get, WSL))


def picture_paths(text: str, *, wsl: bool = False) -> tuple[str, ...]:
    """The absolute paths that a paste consists of, () if there is any other word in it or one has no picture's suffix.

    Quoted, escaped by backslashes, as `file://` addresses, several on a line or one on each; `wsl`: Windows paths are
    those of the drives below /mnt. Pure: whether a file is there is not looked at.
    """
    text = text.strip().strip("\0")
    if not text or len(text) > LONGEST:
        return ()
    found: list[str] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        paths = _in_line(line, wsl=wsl)
        if not paths:
            return ()
        found += paths
    return tuple(dict.fromkeys(found)) if len(found) <= MOST else ()


def _in_line(line: str, *, wsl: bool) -> list[str]:
    """As one path first: a terminal that does not quote leaves its spaces as they are."""
    if whole := _path(_bare(line), wsl=wsl):
        return _words(line, wsl=wsl) if _holds_more(line) else [whole]
    return _words(line, wsl=wsl)


def _bare(line: str) -> str:
    return line[1:-1] if len(line) > 1 and line[0] == line[-1] and line[0] in "'\"" else line


def _holds_more(line: str) -> bool:
    """Whether a line may be several paths, or one that is escaped."""
    if _DRIVE.match(_bare(line)):
        return False
    return "\\" in line or re.search(r"[\s'\"](/|~|file://|['\"])", line) is not None


def _words(line: str, *, wsl: bool) -> list[str]:
    try:
        words = shlex.split(line)
    except ValueError:
        return []
    paths = [_path(word, wsl=wsl) for word in words]
    return paths if all(paths) else []


def _path(word: str, *, wsl: bool) -> str:
    """One absolute path, "" for anything else."""
    if word.startswith("file:"):
        try:
            address = urlsplit(word)
        except ValueError:
            return ""
        word = unquote(address.path) if address.netloc in {"", "localhost"} else ""
    if wsl and (drive := _DRIVE.match(word)):
        word = f"/mnt/{drive[1].lower()}/" + word[3:].replace("\\", "/")
    if not word.startswith(("/", "~/")) or "\0" in word or Path(word).suffix.lower() not in SUFFIXES:
        return ""
    return word


def existing(paths: tuple[str, ...]) -> tuple[str, ...]:
    """The same paths, absolute, if each of them is a file; else ()."""
    found: list[str] = []
    for each in paths:
        try:
            path = Path(each).expanduser()
            if not path.is_file():
                return ()
        except (OSError, RuntimeError, ValueError):
            return ()
        found.append(str(path))
    return tuple(found)
