"""Paths of a project from which git takes what it runs or obeys, besides those with well-known names.

Hooks may lie behind a link in `.git/hooks` or where `core.hooksPath` says; a configuration may include files of the
project, and name programs of it.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from core.git.layout import RepositoryLayout, find_repository, read_small_file
from core.git.repository import GitFailed, GitRepository, find_git, read_config_text, read_settings
from core.git.safe_config import ConfigPairs
from core.git.temporary_directories import make_temporary_directory
from core.workspace.protected_files import GIT_RISK, HOOK_RISK

_PROGRAM_RISK = "is run by git itself: its configuration names it"
_PROGRAM_SETTINGS = re.compile(
    r"core\.(?:fsmonitor|sshcommand|askpass|editor|pager|gitproxy|alternaterefscommand)|sequence\.editor|diff\.external"
    r"|pager\..*|credential\.helper|.*\.(?:clean|smudge|process|textconv|command|driver|program|cmd|helper|uploadpack"
    r"|receivepack)",
    re.DOTALL,
)
_INCLUDE_SETTINGS = re.compile(r"include\.path|includeif\..*\.path", re.DOTALL)
_MAX_INCLUDES = 10  # that are followed by includes
_MAX_LINKS = 200


def find_executed_paths(root: Path) -> dict[str, str]:
    """Return files and directories below `root` ("." is the root itself), with the risk of a change there.

    `root` is the top of a repository or part of one.
    """
    places = find_repository(root)
    if places is None:
        return {}
    risks = dict.fromkeys(_list_below(root, _list_linked_hooks(places)), HOOK_RISK)
    try:
        with make_temporary_directory() as directory:
            users, own_pairs, included_paths = _read_settings(
                GitRepository(find_git(root), directory, places.root), places
            )
    except (GitFailed, OSError):
        return risks
    top = places.root
    hook_paths = (
        top / Path(value).expanduser() for key, value in (*users, *own_pairs) if key == "core.hookspath" and value
    )
    risks |= dict.fromkeys(_list_below(root, hook_paths), HOOK_RISK)
    risks |= dict.fromkeys(_list_below(root, included_paths), GIT_RISK)
    programs = (
        word for key, value in own_pairs if value and _PROGRAM_SETTINGS.fullmatch(key) for word in _split_command(value)
    )
    program_paths = [(top / word) for word in programs if "/" in word or (top / word).is_file()]
    return dict.fromkeys((path for path in _list_below(root, program_paths) if path != "."), _PROGRAM_RISK) | risks


def list_deciding_files(root: Path) -> list[str]:
    """Return the absolute paths of what decides on `find_executed_paths`, as far as it lies outside of `root`."""
    places = find_repository(root)
    if places is None or places.own == root / ".git":
        return []
    return [str(places.common / "config"), str(places.own / "config.worktree"), str(places.common / "hooks")]


def _list_linked_hooks(places: RepositoryLayout) -> Iterator[Path]:
    hooks = places.common / "hooks"
    if hooks.is_symlink():
        yield hooks
    try:
        yield from [path for path in sorted(hooks.iterdir()) if path.is_symlink()][:_MAX_LINKS]
    except OSError:
        return


def _read_settings(repository: GitRepository, places: RepositoryLayout) -> tuple[ConfigPairs, ConfigPairs, list[Path]]:
    """Return the user's settings; the repository's with what they include, and the files included."""
    users, own_pairs = read_settings(repository, read_config_text(places))
    included_paths = list(dict.fromkeys(_list_includes(own_pairs, places.common)))
    for file in included_paths:  # grows meanwhile
        try:
            _, further_pairs = read_settings(repository, read_small_file(file.resolve()))
        except OSError:
            continue
        own_pairs = [*own_pairs, *further_pairs]
        new = [path for path in _list_includes(further_pairs, file.parent) if path not in included_paths]
        included_paths += new[: max(0, _MAX_INCLUDES - len(included_paths))]
    return users, own_pairs, included_paths


def _list_includes(pairs: ConfigPairs, directory: Path) -> Iterator[Path]:
    for key, value in pairs:
        if value and _INCLUDE_SETTINGS.fullmatch(key):
            yield directory / Path(value).expanduser()


def _split_command(value: str) -> list[str]:
    try:
        return [word.lstrip("!") for word in shlex.split(value)]
    except ValueError:
        return [word.strip("!'\"") for word in value.split()]


def _list_below(root: Path, paths: Iterable[Path]) -> list[str]:
    """Return where these really are, and by which names they are called, as far as that is in the project."""
    ways = [
        absolute_path
        for path in paths
        for absolute_path in (os.path.realpath(path), os.path.normpath(path))
        if "\0" not in str(path)
    ]
    relative_paths = (os.path.relpath(absolute_path, root) for absolute_path in ways)
    return sorted(
        {relative_path for relative_path in relative_paths if relative_path.split("/")[0] not in {"..", ".git"}}
    )
