"""The view that commands have of a project's repository outside of the workspace, and of the user's own configuration.

The repository of a worktree, of a submodule and of what is part of one lies beside the workspace or above it. Commands
are shown the directory that holds its data, and the tree that the workspace is part of; of the user's settings nothing
but the name and the address that commits get.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec import Struct

from core.git.layout import RepositoryLayout
from core.git.repository import GitFailed, find_believed_repository, read_identity
from core.git.safe_config import render_section

_UNSIGNED: Final = {
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "commit.gpgSign",
    "GIT_CONFIG_VALUE_0": "false",
    "GIT_CONFIG_KEY_1": "tag.gpgSign",
    "GIT_CONFIG_VALUE_1": "false",
}


class RepositoryView(Struct, frozen=True, kw_only=True):
    """`directory`: git's own, if it lies outside of the workspace; `tree`: the top of the work tree that the workspace
    is part of, if it is no top itself; `settings`: the text of a configuration file with the user's identity."""

    directory: Path | None = None
    tree: Path | None = None
    settings: str = ""

    def list_readable(self) -> tuple[Path, ...]:
        """Return all that is read outside of the workspace, outer places first."""
        return tuple(path for path in (self.tree, self.directory) if path is not None)

    def get_environment(self) -> dict[str, str]:
        """Return the variables that git needs: the workspace is a mount, and it would look for nothing above that. It
        signs nothing, whatever is configured, since no key is in reach of a command."""
        return _UNSIGNED | ({"GIT_DISCOVERY_ACROSS_FILESYSTEM": "1"} if self.tree else {})


def find_repository_view(workspace: Path) -> RepositoryView:
    """Return the view for a workspace, a real path; without git or an answer of it there is none."""
    try:
        places = find_believed_repository(workspace)
        settings = _render_identity(workspace, places)
    except (GitFailed, OSError):
        return RepositoryView()
    if places is None:
        return RepositoryView(settings=settings)
    return RepositoryView(
        directory=None if places.common.is_relative_to(workspace) else places.common,
        tree=None if places.root == workspace else places.root,
        settings=settings,
    )


def _render_identity(workspace: Path, places: RepositoryLayout | None) -> str:
    identity = read_identity(workspace, places)
    return "".join(render_section(section, names) for section, names in identity.items())
