"""The user's own editor: found outside of the project, and started where no file of the project speaks to it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_KEY_NAME: Final = re.compile(r"(?i)api_?key|token|secret|passw|credential")


def command_of(environment: Mapping[str, str]) -> list[str]:
    """The words that start it: `$VISUAL`, else `$EDITOR`, else vi. A bare name is looked for on PATH without relative
    entries and those below the current directory; ValueError when the words can't be told apart."""
    words = shlex.split(environment.get("VISUAL") or environment.get("EDITOR") or "vi")
    program = words[0]
    if "/" in program:
        return [str(Path(program).expanduser().absolute()), *words[1:]]
    return [shutil.which(program, path=_outside(environment.get("PATH", os.defpath))) or program, *words[1:]]


def _outside(path: str) -> str:
    here = Path.cwd()
    entries = [entry for entry in path.split(os.pathsep) if entry.startswith("/")]
    return os.pathsep.join(entry for entry in entries if not _lies_in(Path(entry), here))


def _lies_in(entry: Path, directory: Path) -> bool:
    return directory != Path("/") and entry.resolve().is_relative_to(directory)


def scratch_place(*, private: bool) -> str | None:
    """Where the editor's file is made: in memory for a private session, if there is such a place; None = as usual."""
    places = (os.environ.get("XDG_RUNTIME_DIR", ""), "/dev/shm") if private else ()
    return next((each for each in places if each and Path(each).is_dir() and os.access(each, os.W_OK)), None)


def without_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables for a program of the user's own: no key of a model's API goes there."""
    return {name: value for name, value in environment.items() if not _KEY_NAME.search(name)}
