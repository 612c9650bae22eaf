"""A commit in progress: its record in the session's directory, written before the repository is touched, and its end.

The branch and the index are two files, so a kill can come between their updates. `settle_commit` completes or reverts
both, judging by the repository alone: in the same way after a normal run and after a kill.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from core.filesystem.atomic_write import replace_file
from core.git.history import MISSING_MODE, GitEntry, diff_trees, update_index
from core.git.index_lock import IndexDraft, install_draft, is_lock_ours, release_lock
from core.git.layout import RepositoryLayout
from core.git.repository import GitFailed, GitRepository, find_confirmed_repository, open_repository
from core.git.tree_entries import list_index_entries
from core.git.work_state import HeadState, read_head
from core.protocol.events import CommitMade
from core.records import decode_json

NOTE_FILE: Final = "commit.json"
_LEFT_BEHIND: Final = "Your index was not updated ({}). To update it: git reset -q -- {}"
_MOVED_ON: Final = "the branch has moved meanwhile"
_STAGED_SINCE: Final = "its staged content was changed meanwhile"


class PendingCommit(Struct, frozen=True, kw_only=True):
    """A commit in progress. `head`, `branch`: its parent and branch; `tree`: its tree, unless a hook changes it.
    `entries`: the changed entries; `before`, `after`: the entries of these paths in the user's index, now and after its
    update. `place`: the temporary directory that git uses meanwhile. `made`: the result, once it is known."""

    head: str
    branch: str
    tree: str
    subject: str
    edits: tuple[str, ...]
    files: tuple[str, ...]
    entries: tuple[GitEntry, ...]
    before: tuple[GitEntry, ...]
    after: tuple[GitEntry, ...]
    draft: IndexDraft
    place: str
    made: CommitMade | None = None


def save_pending_commit(directory: Path, pending: PendingCommit) -> None:
    """Write the record of a commit into the session's directory, synced. Raises OSError."""
    replace_file(directory / NOTE_FILE, msgspec.json.encode(pending))


def load_pending_commit(directory: Path) -> PendingCommit | None:
    """Return the unfinished commit of the session; None if there is none. Raises OSError."""
    try:
        return decode_json((directory / NOTE_FILE).read_bytes(), PendingCommit)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError:
        remove_pending_commit(directory)  # the record is written atomically, so a damaged file is not ours
        return None


def remove_pending_commit(directory: Path) -> None:
    """Remove the record of a commit, which is in the repository and in the log by now."""
    with suppress(OSError):
        (directory / NOTE_FILE).unlink(missing_ok=True)


def settle_commit(root: Path, pending: PendingCommit) -> CommitMade | None:
    """Complete or revert the index and the branch. Return the commit (with a `problem` if the index cannot follow it);
    None if there is none, with the index restored. Later changes by others stay. Raises `GitFailed`, OSError."""
    layout = find_confirmed_repository(root)
    with open_repository(root, may_be_above=True) as repository:
        if layout is None or repository is None:
            raise GitFailed("the repository no longer belongs to this project.")
        now = read_head(repository)
        commit = _find_commit(repository, pending, now)
        reason: str | None = None
        if commit:
            is_latest = commit == now.commit and now.branch == pending.branch
            reason = _follow_commit(repository, layout, pending, commit) if is_latest else _MOVED_ON
        release_lock(layout.own, pending.draft)
    if not commit:
        return None
    return CommitMade(
        id=commit,
        branch=pending.branch,
        subject=pending.subject,
        edits=pending.edits,
        files=pending.files,
        problem=_LEFT_BEHIND.format(reason, shlex.join(pending.files)) if reason is not None else "",
    )


def _find_commit(repository: GitRepository, pending: PendingCommit, now: HeadState) -> str:
    """Return the commit made from `pending`, "" = there is none: the first one on top of its base that has the tree, or
    the subject and the files (hooks and the user may have changed more)."""
    tips = [now.commit] if now.branch == pending.branch else [f"refs/heads/{pending.branch}", now.commit]
    for tip in filter(None, tips):
        commit = _find_child(repository, tip, pending.head)
        if commit and _matches_pending(repository, pending, commit):
            return commit
    return ""


def _find_child(repository: GitRepository, tip: str, head: str) -> str:
    beyond = (f"^{head}",) if head else ()
    with suppress(GitFailed):
        lines = repository.run("rev-list", "--first-parent", "--parents", tip, *beyond, seconds=30.0).split(b"\n")
        words = lines[-2].decode().split(" ") if len(lines) > 1 else []
        if words[1:2] == ([head] if head else []):
            return "".join(words[:1])
    return ""


def _matches_pending(repository: GitRepository, pending: PendingCommit, commit: str) -> bool:
    output = repository.run("log", "-1", "--no-show-signature", "--format=%T%n%s", commit).decode("utf-8", "replace")
    tree, _, subject = output.rstrip("\n").partition("\n")
    if tree == pending.tree:
        return True
    changed_paths = {entry.path for entry in diff_trees(repository, pending.head, commit)}
    return subject.strip() == pending.subject.strip() and changed_paths.issuperset(
        entry.path for entry in pending.entries
    )


def _follow_commit(
    repository: GitRepository, layout: RepositoryLayout, pending: PendingCommit, commit: str
) -> str | None:
    """Update the user's index to the commit. Return why that failed; None: it did not."""
    try:
        changed_entries = diff_trees(repository, pending.head, commit)
        is_as_planned = {_key(entry) for entry in changed_entries} == {_key(entry) for entry in pending.entries}
        if is_as_planned and install_draft(layout.own, pending.draft):
            return None
        if is_lock_ours(layout.own, pending.draft):
            release_lock(layout.own, pending.draft)
        index_entries = list_index_entries(repository, [entry.path for entry in changed_entries])
        entries, is_whole = _select_entries(pending, changed_entries, index_entries)
        update_index(repository, entries, str(layout.own / "index"))
    except (GitFailed, OSError) as error:
        return error.message if isinstance(error, GitFailed) else str(error.strerror)
    return None if is_whole else _STAGED_SINCE


def _select_entries(
    pending: PendingCommit, changed_entries: Iterable[GitEntry], index_entries: dict[bytes, list[GitEntry]]
) -> tuple[list[GitEntry], bool]:
    """Select the index entries to update: those that are unchanged since the commit began. False: others were staged
    elsewhere since."""
    planned_entries = {git_entry.path: git_entry for git_entry in pending.entries}
    before = {git_entry.path: git_entry for git_entry in pending.before}
    after = {git_entry.path: git_entry for git_entry in pending.after}
    entries, is_whole = [], True
    for entry in changed_entries:
        staged_state = _find_staged(index_entries[entry.path])
        if entry.path not in planned_entries or _key(planned_entries[entry.path]) != _key(entry):  # a hook changed it
            target, earlier_state = entry, (entry.old_mode, entry.old if entry.old_mode != MISSING_MODE else "")
        else:
            target, earlier_state = (
                after.get(entry.path, entry),
                _find_staged([before[entry.path]] if entry.path in before else []),
            )
        if staged_state == earlier_state:
            entries.append(target)
        elif entry.path in planned_entries and staged_state != _find_staged([target]):
            is_whole = False
    return entries, is_whole


def _find_staged(entries: Sequence[GitEntry]) -> tuple[str, str]:
    """Return mode and object of a path in an index; without an entry, or with an intent-to-add entry, it has none."""
    if not entries or entries[0].mode == MISSING_MODE:
        return MISSING_MODE, ""
    return entries[0].mode, entries[0].oid


def _key(entry: GitEntry) -> tuple[bytes, str, str]:
    return entry.path, entry.mode, entry.oid
