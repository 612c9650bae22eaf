"""The places in which our own processes look for programs and libraries: none of them in a project.

Libraries that we load start programs by their bare names (`gcc`, `uname`, `ldconfig`), and so do we. With `.`, an empty
entry or a directory of the project on PATH the project would choose what runs, before anybody trusted it. So such
entries leave this process's environment before anything else is imported. Commands in a box, and those that the user
says yes to, have the full paths back: the old values are kept beside.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path

SAVED_PREFIX = "AGENT_TUI_USERS_"
# What the loader of libraries reads; a process that runs already has taken it.
LOADER_VARIABLES = ("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "DYLD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES")
# Each holds places to look for code in, parted by colons (or blanks, those of libraries).
VARIABLES = ("PATH", "GIT_EXEC_PATH", *LOADER_VARIABLES)
LIBRARY_LISTS = ("LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES")
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
IGNORED = (
    "agent-tui: not used by this program, as they lead into the project: {}. "
    "Commands in the box have those that are full paths.\n"
)


def clean_environment(program: Sequence[str]) -> None:
    """Take what leads into a project that the command line may name out of the variables, and say so. Where that
    concerns the loader of libraries, which has read them by now, `program` is started in the place of this process."""
    ignored_entries = remove_project_entries(list_named_directories(sys.argv[1:]))
    if sys.stderr is not None:
        sys.stderr.write(describe_ignored(ignored_entries))
    if any(entry.startswith(LOADER_VARIABLES) for entry in ignored_entries):
        os.execv(sys.executable, [*program, *sys.argv[1:]])


def remove_project_entries(directories: Iterable[Path], environ: MutableMapping[str, str] = os.environ) -> list[str]:
    """Take what is relative or lies in a project out of the variables. Return each entry that went, as `NAME=entry`.

    `directories`: of projects, as they were named.
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
    """List the entries that the user's variables have and those of this process have not, as `NAME=entry`."""
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
    """Return an environment in which the variables are what the user has set, but for what depends on where a program
    is started: nobody means the directory that happens to be the current one."""
    variables = {name: value for name, value in environ.items() if not name.startswith(SAVED_PREFIX)}
    for name in VARIABLES:
        if (value := environ.get(SAVED_PREFIX + name)) is None:
            continue
        entries = [entry for entry in _split_entries(name, value) if not _is_of_a_project(name, entry, ())]
        if entries:
            variables[name] = os.pathsep.join(entries)
    return variables


def describe_ignored(ignored_entries: Iterable[str], environ: Mapping[str, str] = os.environ) -> str:
    """Return a line for the user, "" if there is nothing that they do not know: a virtual environment that they have
    activated in the project is theirs."""
    active = f"{environ.get('VIRTUAL_ENV', '')}/bin"
    notable_entries = [entry for entry in dict.fromkeys(ignored_entries) if entry != f"PATH={active}"]
    return IGNORED.format(", ".join(map(_escape, notable_entries))) if notable_entries else ""


def _escape(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def list_named_directories(words: Iterable[str]) -> list[Path]:
    """Return what a command line may name as a project: the current directory, and each word that is a directory."""
    values = (word.partition("=")[2] if word.startswith("-") else word for word in words)
    return [Path(), *(Path(value) for value in values if value and _is_directory(Path(value)))]


def _split_entries(name: str, value: str) -> list[str]:
    return (value.replace(" ", os.pathsep) if name in LIBRARY_LISTS else value).split(os.pathsep)


def _list_projects(directories: Iterable[Path]) -> list[Path]:
    """Return the projects as full paths, also through links, with the repositories that they lie in; none of them is
    the user's home or above it: what lies there is their own."""
    home = Path(os.environ.get("HOME", "/")).resolve()
    spellings = dict.fromkeys(path for directory in directories for path in _list_spellings(directory))
    tops = dict.fromkeys(top for path in spellings for top in _find_repository(path))
    return [path for path in (*spellings, *tops) if not home.is_relative_to(path)]


def _find_repository(path: Path) -> Iterator[Path]:
    """Yield the nearest directory from here upwards that is the top of a repository, if any."""
    for directory in (path, *path.parents):
        if os.path.lexists(directory / ".git"):
            yield directory
            return


def _is_of_a_project(name: str, entry: str, projects: Iterable[Path]) -> bool:
    if name in LIBRARY_LISTS and "/" not in entry:
        return False  # the name of a library, which is looked for
    if not entry.startswith("/"):
        return True
    spellings = _list_spellings(Path(entry))
    return any(path.is_relative_to(project) for path in spellings for project in projects)


def _list_spellings(path: Path) -> tuple[Path, ...]:
    """Return the full path as it is spelled, without `..`, and where its links lead; none if the directory is gone."""
    try:
        return Path(os.path.normpath(path.absolute())), path.resolve()
    except (OSError, RuntimeError):
        return ()


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
