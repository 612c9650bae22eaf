"""Search paths of our own processes for programs and libraries, without directories of a project.

Libraries start programs by their bare names (`gcc`, `uname`, `ldconfig`), and so does this program. With `.`, an empty
entry or a directory of the project in PATH the project would choose what runs before the user trusts it. Such entries
are removed from the environment before anything else is imported. The original values are saved for sandboxed commands,
and for those that the user approves.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import cache
from pathlib import Path

from core.filesystem.name_spelling import resolve_spelled

SAVED_PREFIX = "AGENT_TUI_USERS_"
# Variables of the dynamic loader, which has read them when the process starts.
LOADER_VARIABLES = ("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "DYLD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES")
# Lists of search paths, separated by colons (lists of libraries also by blanks).
VARIABLES = ("PATH", "GIT_EXEC_PATH", *LOADER_VARIABLES)
LIBRARY_LISTS = ("LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES")
APPLE_STUB = "/usr/bin/git"
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
IGNORED = (
    "agent-tui: not used by this program, because they point into the project: {}. Sandboxed commands "
    "get those that are full paths.\n"
)


def clean_environment(program: Sequence[str]) -> None:
    """Remove entries from the variables that lead into a project on the command line, with a notice. If this concerns
    the dynamic loader, which has read them already, `program` replaces this process."""
    ignored_entries = remove_project_entries(list_named_directories(sys.argv[1:]))
    if sys.stderr is not None:
        sys.stderr.write(describe_ignored(ignored_entries))
    if any(entry.startswith(LOADER_VARIABLES) for entry in ignored_entries):
        os.execv(sys.executable, [*program, *sys.argv[1:]])


def remove_project_entries(directories: Iterable[Path], environ: MutableMapping[str, str] = os.environ) -> list[str]:
    """Remove entries that are relative or in a project from the variables. Return every removed entry as `NAME=entry`.

    `directories`: of projects, as on the command line.
    """
    projects = _list_projects(directories)
    ignored_entries: list[str] = []
    for name in VARIABLES:
        if (value := environ.get(name)) is None or (not value and name != "PATH"):
            continue
        entries = _split_entries(name, value)
        allowed_entries = [entry for entry in entries if not _is_of_a_project(name, entry, projects)]
        if len(allowed_entries) == len(entries):
            continue
        ignored_entries += [f"{name}={entry or '(empty)'}" for entry in entries if entry not in allowed_entries]
        environ.setdefault(SAVED_PREFIX + name, value)
        if allowed_entries or name == "PATH":
            environ[name] = os.pathsep.join(allowed_entries) or DEFAULT_PATH
        else:
            del environ[name]
    return ignored_entries


def list_ignored(environ: Mapping[str, str] = os.environ) -> list[str]:
    """List the entries of the user's variables that this process does not use, as `NAME=entry`."""
    ignored_entries = []
    for name in VARIABLES:
        users = environ.get(SAVED_PREFIX + name)
        current_entries = _split_entries(name, environ.get(name, ""))
        entries = [] if users is None else _split_entries(name, users)
        ignored_entries += [
            f"{name}={entry or '(empty)'}" for entry in entries if entry not in current_entries or not entry
        ]
    return ignored_entries


def restore_user_paths(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment with the user's own variables, without entries that are relative to the current directory,
    which is never meant."""
    variables = {name: value for name, value in environ.items() if not name.startswith(SAVED_PREFIX)}
    for name in VARIABLES:
        if (value := environ.get(SAVED_PREFIX + name)) is None:
            continue
        entries = [entry for entry in _split_entries(name, value) if not _is_of_a_project(name, entry, ())]
        if entries:
            variables[name] = os.pathsep.join(entries)
    return variables


def find_git(path: str | None = None) -> str | None:
    """Return git's absolute path on a search path (None: PATH), None: it is not installed.

    Apple's `/usr/bin/git` of a Mac without developer tools is none: it asks on the screen to install them.
    """
    program = shutil.which("git", path=path)
    return None if program == APPLE_STUB and sys.platform == "darwin" and not _has_developer_tools() else program


@cache
def _has_developer_tools() -> bool:
    import subprocess

    try:
        trial = subprocess.run(("/usr/bin/xcode-select", "-p"), capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return trial.returncode == 0


def describe_ignored(ignored_entries: Iterable[str], environ: Mapping[str, str] = os.environ) -> str:
    """Return a notice for the user, "" if all entries are expected: an active virtual environment in the project."""
    active = f"{environ.get('VIRTUAL_ENV', '')}/bin"
    notable_entries = [entry for entry in dict.fromkeys(ignored_entries) if entry != f"PATH={active}"]
    return IGNORED.format(", ".join(map(_escape, notable_entries))) if notable_entries else ""


def _escape(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def list_named_directories(words: Iterable[str]) -> list[Path]:
    """Return the directories that a command line may name as a project, including the current one."""
    values = (word.partition("=")[2] if word.startswith("-") else word for word in words)
    return [Path(), *(Path(value) for value in values if value and _is_directory(Path(value)))]


def _split_entries(name: str, value: str) -> list[str]:
    return (value.replace(" ", os.pathsep) if name in LIBRARY_LISTS else value).split(os.pathsep)


def _list_projects(directories: Iterable[Path]) -> list[Path]:
    """Return the projects as absolute paths, also with links resolved, and their repositories; without the user's home
    and directories above it, which are the user's own."""
    home = resolve_spelled(Path(os.environ.get("HOME", "/")))
    spellings = dict.fromkeys(path for directory in directories for path in _list_spellings(directory))
    tops = dict.fromkeys(top for path in spellings for top in _find_repository(path))
    return [path for path in (*spellings, *tops) if not home.is_relative_to(path)]


def _find_repository(path: Path) -> Iterator[Path]:
    """Yield the nearest directory upwards that is the top of a repository, if any."""
    for directory in (path, *path.parents):
        if os.path.lexists(directory / ".git"):
            yield directory
            return


def _is_of_a_project(name: str, entry: str, projects: Iterable[Path]) -> bool:
    if name in LIBRARY_LISTS and "/" not in entry:
        return False  # the name of a library, not a path
    if not entry.startswith("/"):
        return True
    spellings = _list_spellings(Path(entry))
    return any(path.is_relative_to(project) for path in spellings for project in projects)


def _list_spellings(path: Path) -> tuple[Path, ...]:
    """Return the absolute path without `..`, and with links resolved; () if the directory is missing."""
    try:
        return Path(os.path.normpath(path.absolute())), resolve_spelled(path)
    except (OSError, RuntimeError):
        return ()


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
