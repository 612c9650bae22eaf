"""Pending or accepted changes of a session as one patch."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from core.engine.commits.basis import open_basis
from core.engine.session.pending_changes import ReviewedSession
from core.errors import ContentLost
from core.protocol import queries as q
from core.protocol.paths import is_below
from core.protocol.review import Change
from core.shadow.commits.patch_text import render_patch
from core.shadow.commits.path_version import PathVersion, read_version
from core.shadow.diff.hunks import is_divisible, select_hunks


def build_patch(session: ReviewedSession, query: q.PatchQuery) -> q.PatchAnswer:
    """Return pending or accepted changes as a patch. Slow: call it in a thread. Raises `AgentTuiError`."""
    left_out: dict[str, str] = {}
    if query.which == "pending":
        versions = _read_pending(session, query, left_out)
    else:
        with open_basis(session) as basis:
            contents = [content for content in basis.compute() if is_selected(content.path, query.paths)]
        left_out = {content.path: content.problem for content in contents if content.problem}
        versions = {content.path: (content.head, content.after) for content in contents if not content.problem}
    patch = render_patch(session.workspace.root, versions) if versions else b""
    return q.PatchAnswer(patch=patch, paths=tuple(versions), left_out=tuple(left_out.items()))


def _read_pending(
    session: ReviewedSession, query: q.PatchQuery, left_out: dict[str, str]
) -> dict[str, tuple[PathVersion, PathVersion]]:
    """Return the two versions of pending changes by path; unreadable ones are added to `left_out` with a reason."""
    contents, versions = session.shadow.merged_tree.contents, dict[str, tuple[PathVersion, PathVersion]]()
    for path, change in sorted(session.state.changes.items()):
        if not is_selected(path, query.paths):
            continue
        try:
            base, pending = read_version(change.base, contents), read_version(change.pending, contents)
        except ContentLost as problem:
            left_out[path] = problem.message
            continue
        versions[path] = (base, _select_hunks(change, base, pending, query.hunks) if query.hunks else pending)
    for bulk in session.state.review.bulks:
        if bulk.needs_verdict and is_selected(bulk.root, query.paths):
            left_out[bulk.root] = "it is accepted as a whole"
    return versions


def _select_hunks(change: Change, base: PathVersion, pending: PathVersion, hunk_ids: Sequence[str]) -> PathVersion:
    """Return the pending version with only these hunks; an indivisible change is included as a whole or not at all."""
    hunks = [hunk for hunk in change.hunks if hunk.id in hunk_ids]
    if not hunks or change.source is not None or not is_divisible(base.data, pending.data):
        return pending if hunks else base
    is_complete = len(hunks) == len(change.hunks)
    return pending if is_complete else replace(pending, data=select_hunks(base.data, pending.data, hunks))


def is_selected(path: str, paths: Sequence[str]) -> bool:
    """True if a path is one of `paths` or below one, or if `paths` is empty."""
    return not paths or any(is_below(path, ancestor) for ancestor in paths)
