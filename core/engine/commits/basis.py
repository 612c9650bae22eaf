"""The basis of a session's next commits: the present repository, and the accepted edits that are in no commit yet.

It is read again for every preview and every commit, so that a preview shows what would be committed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from shlex import quote

from msgspec import Struct
from msgspec.structs import replace

from core.engine.session.pending_changes import ReviewedSession
from core.errors import CommandRejected
from core.git.layout import RepositoryLayout, find_repository
from core.git.repository import GitRepository, find_confirmed_repository, open_repository
from core.git.work_state import HeadState, find_operation, list_commit_hooks, read_head
from core.shadow.commits.commit_content import (
    CommitContent,
    HeadFiles,
    compute_contents,
    find_unstorable,
    read_head_files,
)
from core.shadow.commits.path_version import AcceptedEdit, PathVersion, list_accepted_edits, read_version

NOT_COMMITTABLE = "not_committable"


class CommitBasis(Struct, frozen=True, kw_only=True):
    """Repository, HEAD and accepted edits. `hooks`: paths of the hooks that a commit runs, by name. Files of the last
    commit and of the disk are read once."""

    layout: RepositoryLayout
    repository: GitRepository
    head: HeadState
    edits: tuple[AcceptedEdit, ...]
    hooks: dict[str, Path]
    heads: HeadFiles
    read_disk: Callable[[str], PathVersion]

    def compute(self, edits: Sequence[AcceptedEdit] | None = None) -> list[CommitContent]:
        """Return the content of a commit of some edits (None: of all) on top of HEAD."""
        accepted_edits = self.edits if edits is None else edits
        last = {edit.path: edit.id for edit in self.edits}
        whole_paths = {
            accepted_edit.path for accepted_edit in accepted_edits if last[accepted_edit.path] == accepted_edit.id
        }

        def read_disk(path: str) -> PathVersion | None:
            return self.read_disk(path) if path in whole_paths else None

        contents = compute_contents(self.heads, accepted_edits, read_disk)
        problems = find_unstorable(self.repository, self.heads, contents)
        return [replace(content, problem=problems.get(content.path, content.problem)) for content in contents]

    def select(self, ids: Sequence[str]) -> list[AcceptedEdit]:
        """Return the edits of these ids in their order. Raises `CommandRejected` for an unknown id."""
        edits_by_id = {edit.id: edit for edit in self.edits}
        if unknown := [edit_id for edit_id in ids if edit_id not in edits_by_id]:
            raise CommandRejected(
                f"no accepted edit {unknown[0]!r} is waiting for a commit.",
                hint="See them again: /commit",
                code="edit_unknown",
            )
        selected_ids = set(ids)
        return [edit for edit in self.edits if edit.id in selected_ids]


def _explain_missing_repository(root: Path) -> CommandRejected:
    """Return the error for a project without a repository, or with one that git uses and agent-tui does not."""
    problem, hint = "this project is not in a git repository.", "git init creates one."
    if os.environ.get("GIT_DIR"):
        problem, hint = (
            "the repository is set by GIT_DIR, which agent-tui does not support.",
            "Commit with git itself.",
        )
    elif layout := find_repository(root):
        problem = f"{layout.root / '.git'} points to a repository that does not list this work tree."
        hint = f"If it is yours: git config core.worktree {quote(str(layout.root))}"
    return CommandRejected(problem, hint=hint, code=NOT_COMMITTABLE)


@contextmanager
def open_basis(session: ReviewedSession) -> Iterator[CommitBasis]:
    """Open the basis. Slow: call it in a thread. Raises `CommandRejected` if nothing can be committed, `GitFailed`,
    `ContentLost`."""
    root = session.workspace.root
    layout = find_confirmed_repository(root)
    if layout is None:
        raise _explain_missing_repository(root)
    if operation := find_operation(layout):
        raise CommandRejected(
            f"the repository is in the middle of {operation}.",
            hint="Finish or abort it first: git status says how.",
            code=NOT_COMMITTABLE,
        )
    review, contents = session.state.review, session.shadow.merged_tree.contents
    committed_ids = {edit for commit in review.commits for edit in commit.edits}
    edits = list_accepted_edits(review.verdicts, contents, committed_ids)
    tree = session.shadow.merged_tree
    with open_repository(root, may_be_above=True) as repository:
        if repository is None:
            raise CommandRejected("the repository does not belong to this project.", code=NOT_COMMITTABLE)
        below = root.relative_to(layout.root).as_posix()
        prefix, head = "" if below == "." else f"{below}/", read_head(repository)
        yield CommitBasis(
            layout=layout,
            repository=repository,
            head=head,
            edits=tuple(edits),
            hooks=list_commit_hooks(repository, layout),
            heads=read_head_files(repository, head.commit, {accepted_edit.path for accepted_edit in edits}, prefix),
            read_disk=cache(lambda path: read_version(tree.read_disk_state(path), contents)),
        )
