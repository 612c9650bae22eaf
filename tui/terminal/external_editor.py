"""The user's own editor: looked up outside of the project, and started where no file of the project can affect it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_KEY_NAME: Final = re.compile(r"(?i)api_?key|token|secret|passw|credential")


def find_editor_command(environment: Mapping[str, str]) -> list[str]:
    """Return the words that start the editor: `$VISUAL`, else `$EDITOR`, else vi.

    A bare name is looked for on PATH without relative entries and those below the current directory. Raises
    ValueError
    when the words can't be told apart.
    """
    words = shlex.split(environment.get("VISUAL") or environment.get("EDITOR") or "vi")
    program = words[0]
    if "/" in program:
        return [str(Path(program).expanduser().absolute()), *words[1:]]
    return [
        shutil.which(program, path=_drop_project_entries(environment.get("PATH", os.defpath))) or program,
        *words[1:],
    ]


def _drop_project_entries(path: str) -> str:
    here = Path.cwd()
    entries = [entry for entry in path.split(os.pathsep) if entry.startswith("/")]
    return os.pathsep.join(entry for entry in entries if not _is_inside(Path(entry), here))


def _is_inside(entry: Path, directory: Path) -> bool:
    return directory != Path("/") and entry.resolve().is_relative_to(directory)


def find_scratch_directory(*, is_private: bool) -> str | None:
    """Return the directory for the editor's file: in memory for a private session if possible; None = the default
    one."""
    places = (os.environ.get("XDG_RUNTIME_DIR", ""), "/dev/shm") if is_private else ()
    return next((each for each in places if each and Path(each).is_dir() and os.access(each, os.W_OK)), None)


def drop_api_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a program of the user's own, without the keys of model APIs."""
    return {name: value for name, value in environment.items() if not _KEY_NAME.search(name)}
