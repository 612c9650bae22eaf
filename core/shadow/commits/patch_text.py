"""Two versions of paths as one patch that `git apply` reproduces exactly: binary content, modes, links, renames.

Git writes the patch, from objects in a temporary repository. The patch of a whole session needs no more than its
folded state: what was accepted, and what is pending on top of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from core.errors import ContentLost
from core.git.history import LINK_MODE
from core.git.repository import GitRepository, find_git
from core.git.temporary_directories import make_temporary_directory
from core.git.tree_writer import TreeWriter
from core.protocol import events as ev
from core.protocol.review import FileState
from core.shadow.commits.path_version import (
    AcceptedEdit,
    EditClash,
    PathVersion,
    apply_edits,
    list_accepted_edits,
    read_version,
)
from core.shadow.content.contents import Contents
from core.state.review import ReviewState
from core.workspace.file_names import to_os_name

_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tautocrlf = false\n"
_HOW = ("--patch", "--binary", "--full-index", "--find-renames", "--no-ext-diff", "--no-textconv", "--no-color")
_SECONDS = 60.0


def render_session_patch(
    root: Path, review: ReviewState, contents: Contents, written: Mapping[str, ev.FileWritten], order: Sequence[str]
) -> tuple[bytes, dict[str, str]]:
    """Return everything that a session accepted or has pending as one patch, committed or not, without the user's own
    edits; and the paths of which it has nothing, with the reasons. `written`: what commands wrote in place, by ids that
    stand with those of the verdicts in `order`. Slow. Raises `ContentLost`, `GitFailed`, OSError."""
    ranks = {name: rank for rank, name in enumerate(order)}
    left_out = dict[str, str]()
    sequence = [*list_accepted_edits(review.verdicts, contents)]
    sequence += [_read_edit(name, event.path, event.before, event.state, contents) for name, event in written.items()]
    sequence.sort(key=lambda edit: ranks.get(edit.id.partition(".")[0], 0))
    for path, change in review.changes.items():
        try:
            sequence.append(_read_edit(path, path, change.base, change.pending, contents))
        except ContentLost as problem:
            left_out[path] = problem.message
    edits = dict[str, list[AcceptedEdit]]()
    for edit in sequence:
        edits.setdefault(edit.path, []).append(edit)
    versions = dict[str, tuple[PathVersion, PathVersion]]()
    for path in sorted(edits.keys() - left_out.keys()):
        try:
            first = edits[path][0].before
            versions[path] = (first, apply_edits(first, edits[path], None))
        except EditClash as problem:
            left_out[path] = problem.message
    left_out |= {bulk.root: "it is accepted as a whole" for bulk in review.bulks if bulk.needs_verdict}
    return render_patch(root, versions) if versions else b"", left_out


def _read_edit(name: str, path: str, before: FileState | None, after: FileState, contents: Contents) -> AcceptedEdit:
    base = read_version(before, contents) if before is not None else PathVersion()
    return AcceptedEdit(id=name, path=path, before=base, after=read_version(after, contents))


def render_patch(root: Path, versions: Mapping[str, tuple[PathVersion, PathVersion]]) -> bytes:
    """Return the patch from the first to the second version of every path. Slow. Raises `GitFailed`, OSError."""
    with make_temporary_directory() as directory:
        for name in ("objects", "refs"):
            (directory / name).mkdir()
        (directory / "HEAD").write_text("ref: refs/heads/none\n")
        (directory / "config").write_text(_CONFIG)
        writer = TreeWriter(directory / "objects")
        trees = [writer.write(_list_files({path: pair[side] for path, pair in versions.items()})) for side in (0, 1)]
        place = root if root.is_dir() else directory  # the project of a session may be gone
        return GitRepository(find_git(root), directory, place).run("diff-tree", *_HOW, *trees, seconds=_SECONDS)


def _list_files(versions: Mapping[str, PathVersion]) -> dict[bytes, tuple[str, bytes]]:
    """Return the modes and contents of the paths that exist."""
    modes = {path: "100755" if version.is_executable else "100644" for path, version in versions.items()}
    return {
        to_os_name(path): (LINK_MODE if version.kind == "symlink" else modes[path], version.data)
        for path, version in versions.items()
        if version.kind != "absent"
    }
