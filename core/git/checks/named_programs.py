"""The check that a commit runs nothing that the repository chooses: no hook, no program that its settings name.

What is known to hold data only is listed, and everything else counts as a program: a setting that nobody has thought of
is on the safe side. The user's own settings and hooks are theirs, unless they lead into the project (`.husky`).
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from core.git.layout import RepositoryLayout
from core.git.repository import (
    GitFailed,
    GitRepository,
    find_believed_repository,
    find_git,
    read_config_text,
    read_settings,
)
from core.git.safe_config import find_last, is_switch
from core.git.temporary_directories import make_temporary_directory

_DATA_ONLY: Final = re.compile(
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


def list_programs(root: Path) -> tuple[str, ...]:
    """Return the settings and hooks by which the repository of a project, a real path, may have git run something when
    it commits. Starts git.

    A repository that can't be read is named as a whole.
    """
    try:
        places = find_believed_repository(root)
        if places is None:
            return ()
        with make_temporary_directory() as directory:
            users, own_pairs = read_settings(
                GitRepository(find_git(root), directory, places.root), read_config_text(places)
            )
    except (GitFailed, OSError):
        return (".git, which can't be read",)
    settings = dict.fromkeys(name for name, value in own_pairs if not _is_data(name, value))
    folder = Path(find_last(users, "core.hookspath") or places.common / "hooks").expanduser()
    return (*settings, *_list_hooks(places, places.root / folder))


def _is_data(name: str, value: str | None) -> bool:
    is_own_daemon = name == "core.fsmonitor" and is_switch(value)
    return is_own_daemon or _DATA_ONLY.fullmatch(name) is not None


def _list_hooks(places: RepositoryLayout, folder: Path) -> list[str]:
    """Return the hooks in a directory that belongs to the repository or its work tree."""
    real = Path(os.path.realpath(folder))
    if not any(real.is_relative_to(os.path.realpath(top)) for top in (places.root, places.common, places.own)):
        return []
    try:
        return sorted(f"the hook {entry.name}" for entry in folder.iterdir() if not entry.name.endswith(".sample"))
    except FileNotFoundError:
        return []
