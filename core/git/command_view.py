"""The view of commands on a project's repository outside of the workspace, and on the user's own configuration.

The repository of a worktree, of a submodule or of a part of one is next to the workspace or above it. Commands can read
the directory with its data, and the tree that the workspace is part of; of the user's settings they get only the name
and the address for commits.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec import Struct

from core.git.layout import RepositoryLayout
from core.git.repository import GitFailed, find_confirmed_repository, read_identity
from core.git.safe_config import render_section

_UNSIGNED: Final = {
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "commit.gpgSign",
    "GIT_CONFIG_VALUE_0": "false",
    "GIT_CONFIG_KEY_1": "tag.gpgSign",
    "GIT_CONFIG_VALUE_1": "false",
}


class RepositoryView(Struct, frozen=True, kw_only=True):
    """The view of commands.

    `directory`: git's own, if it is outside of the workspace; `tree`: the top of the work tree, if the workspace is
    only part of it; `settings`: the text of a configuration file with the user's identity.
    """

    directory: Path | None = None
    tree: Path | None = None
    settings: str = ""

    def list_readable(self) -> tuple[Path, ...]:
        """Return all readable paths outside of the workspace, outer ones first."""
        return tuple(path for path in (self.tree, self.directory) if path is not None)

    def get_environment(self) -> dict[str, str]:
        """Return the environment variables for git: it has to search above the workspace, which is a mount, and must
        not sign commits, since a command has no access to a key."""
        return _UNSIGNED | ({"GIT_DISCOVERY_ACROSS_FILESYSTEM": "1"} if self.tree else {})


def find_repository_view(workspace: Path) -> RepositoryView:
    """Return the view for a workspace, a real path; an empty one without git or if git fails."""
    try:
        layout = find_confirmed_repository(workspace)
        settings = _render_identity(workspace, layout)
    except (GitFailed, OSError):
        return RepositoryView()
    if layout is None:
        return RepositoryView(settings=settings)
    return RepositoryView(
        directory=None if layout.common.is_relative_to(workspace) else layout.common,
        tree=None if layout.root == workspace else layout.root,
        settings=settings,
    )


def _render_identity(workspace: Path, layout: RepositoryLayout | None) -> str:
    identity = read_identity(workspace, layout)
    return "".join(render_section(section, names) for section, names in identity.items())
