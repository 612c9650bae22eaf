"""Programs and files of a repository that git runs or obeys.

`find_executed_paths` finds paths of the project, besides those with well-known names: hooks may lie behind a link in
`.git/hooks` or in the directory of `core.hooksPath`; a configuration may include files of the project, and name
programs of it. `list_programs` checks that a commit runs nothing that the repository chooses: settings known to hold
data only are listed, and any other setting counts as a program, so that an unknown one is on the safe side. The user's
own settings and hooks are theirs, unless they lead into the project (`.husky`).
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from core.git.layout import GIT_RISK, HOOK_RISK, RepositoryLayout, find_repository, read_small_file
from core.git.repository import (
    GitFailed,
    GitRepository,
    find_confirmed_repository,
    find_git,
    read_config_text,
    read_settings,
)
from core.git.safe_config import ConfigPairs, find_last, is_switch
from core.git.temporary_directories import make_temporary_directory
from core.patterns import compile_lazily

_PROGRAM_RISK = "is run by git itself, as set in its configuration"
_PROGRAM_SETTINGS = compile_lazily(
    r"core\.(?:fsmonitor|sshcommand|askpass|editor|pager|gitproxy|alternaterefscommand)|sequence\.editor|diff\.external"
    r"|pager\..*|credential\.helper|.*\.(?:clean|smudge|process|textconv|command|driver|program|cmd|helper|uploadpack"
    r"|receivepack)",
    re.DOTALL,
)
_INCLUDE_SETTINGS = compile_lazily(r"include\.path|includeif\..*\.path", re.DOTALL)
_MAX_INCLUDES = 10  # included files that are read
_MAX_LINKS = 200  # in the directory of hooks
_DATA_ONLY: Final = compile_lazily(
    r"core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol"
    r"|safecrlf|quotepath|sparsecheckout|sparsecheckoutcone|trustctime|checkstat|worktree|sharedrepository|compression"
    r"|protecthfs|protectntfs|longpaths|abbrev|untrackedcache|splitindex|commentchar|preloadindex)"
    r"|extensions\.(?:objectformat|worktreeconfig|refstorage)"
    r"|(?:branch|submodule)\..*\.(?:remote|merge|rebase|description|pushremote|url|active|branch|path|vscode-merge-base"
    r"|github-pr-owner-number|gk-last-accessed|gk-last-modified)"
    r"|submodule\.active|remote\..*\.(?:url|fetch|pushurl|push|tagopt|prune|gh-resolved)"
    r"|user\.(?:name|email)|(?:author|committer)\.(?:name|email)"
    r"|(?:pull|rebase|fetch|push|status|color|advice|init|log|index|rerere|feature)\..*"
    r"|lfs\.(?:repositoryformatversion|.*\.access)",
    re.DOTALL,
)


def find_executed_paths(root: Path) -> dict[str, str]:
    """Return files and directories below `root` ("." is the root itself), with the risk of a change there.

    `root` is the top of a repository or part of one.
    """
    layout = find_repository(root)
    if layout is None:
        return {}
    risks = dict.fromkeys(_list_below(root, _list_linked_hooks(layout)), HOOK_RISK)
    try:
        with make_temporary_directory() as directory:
            users, own_pairs, included_paths = _read_included_settings(
                GitRepository(find_git(root), directory, layout.root), layout
            )
    except (GitFailed, OSError):
        return risks
    top = layout.root
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
    """Return the absolute paths outside of `root` that the result of `find_executed_paths` depends on."""
    layout = find_repository(root)
    if layout is None or layout.own == root / ".git":
        return []
    return [str(layout.common / "config"), str(layout.own / "config.worktree"), str(layout.common / "hooks")]


def _list_linked_hooks(layout: RepositoryLayout) -> Iterator[Path]:
    hooks = layout.common / "hooks"
    if hooks.is_symlink():
        yield hooks
    try:
        yield from [path for path in sorted(hooks.iterdir()) if path.is_symlink()][:_MAX_LINKS]
    except OSError:
        return


def _read_included_settings(
    repository: GitRepository, layout: RepositoryLayout
) -> tuple[ConfigPairs, ConfigPairs, list[Path]]:
    """Return the user's settings, the repository's with those that it includes, and the included files."""
    users, own_pairs = read_settings(repository, read_config_text(layout))
    included_paths = list(dict.fromkeys(_list_includes(own_pairs, layout.common)))
    for file in included_paths:  # the list grows in this loop
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
    """Return the real paths and the named paths below `root`, relative to it."""
    absolute_paths = [
        absolute_path
        for path in paths
        for absolute_path in (os.path.realpath(path), os.path.normpath(path))
        if "\0" not in str(path)
    ]
    relative_paths = (os.path.relpath(absolute_path, root) for absolute_path in absolute_paths)
    return sorted(
        {relative_path for relative_path in relative_paths if relative_path.split("/")[0] not in {"..", ".git"}}
    )


def list_programs(root: Path) -> tuple[str, ...]:
    """Return the settings and hooks by which the repository of a project, a real path, may make git run a program when
    it commits. Starts git.

    A repository that can't be read is listed as a whole.
    """
    try:
        layout = find_confirmed_repository(root)
        if layout is None:
            return ()
        with make_temporary_directory() as directory:
            users, own_pairs = read_settings(
                GitRepository(find_git(root), directory, layout.root), read_config_text(layout)
            )
    except (GitFailed, OSError):
        return (".git, which can't be read",)
    settings = dict.fromkeys(name for name, value in own_pairs if not _is_data(name, value))
    folder = Path(find_last(users, "core.hookspath") or layout.common / "hooks").expanduser()
    return (*settings, *_list_hooks(layout, layout.root / folder))


def _is_data(name: str, value: str | None) -> bool:
    is_own_daemon = name == "core.fsmonitor" and is_switch(value)
    return is_own_daemon or _DATA_ONLY.fullmatch(name) is not None


def _list_hooks(layout: RepositoryLayout, folder: Path) -> list[str]:
    """Return the hooks in a directory that belongs to the repository or its work tree."""
    real = Path(os.path.realpath(folder))
    if not any(real.is_relative_to(os.path.realpath(top)) for top in (layout.root, layout.common, layout.own)):
        return []
    try:
        return sorted(f"the hook {entry.name}" for entry in folder.iterdir() if not entry.name.endswith(".sample"))
    except FileNotFoundError:
        return []
