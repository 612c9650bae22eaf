"""The candidates of a prompt that was tried several times: what each changed, and taking all or parts of it over.

What a candidate changed is read from its log and its blobs, so that looking at it opens no session and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from msgspec import Struct

from core.engine.session.session import Session
from core.engine.subagents.merging import build_origin, merge_subagent
from core.engine.subagents.sessions import open_subagent_session
from core.errors import AgentTuiError, StateError
from core.protocol.commands import CandidatePick
from core.protocol.events import Notice, SubagentMerged
from core.protocol.review import Change, Check, FileState
from core.sessions.log import read_log
from core.shadow.content.blob_store import BlobStore
from core.shadow.content.contents import Contents
from core.shadow.diff.hunks import select_hunks
from core.shadow.review.conflicts import has_conflict_with
from core.shadow.review.proposals import PathEffect
from core.shadow.subagent_merge import compare_changes
from core.state.fold import apply_event
from core.state.review import ReviewState
from core.state.session import SessionState, SubagentState


class CandidateWork(Struct, frozen=True):
    """The changes of a candidate since it began, and the checks that ran over them as they are now."""

    contents: Contents
    changes: tuple[Change, ...]
    checks: tuple[Check, ...] = ()

    def find(self, path: str) -> Change:
        """Return the change of a path. Raises `StateError`."""
        change = next((change for change in self.changes if change.path == path), None)
        if change is None:
            raise StateError(f"the candidate did not change {path!r}.")
        return change

    def select(self, change: Change, hunks: Sequence[str]) -> FileState:
        """Return the state of a file with these of its hunks alone, () = with all. Raises `StateError`."""
        if unknown := set(hunks) - {hunk.id for hunk in change.hunks}:
            raise StateError(f"{change.path} has no hunk {min(unknown)!r}.", hint="Look at the candidates again.")
        selection = [hunk for hunk in change.hunks if hunk.id in hunks]
        if not hunks or len(selection) == len(change.hunks):
            return change.pending
        old, new = self.contents.read_change(change)
        return self.contents.store_file(select_hunks(old, new, selection), change.pending.mode)


def list_candidates(state: SessionState, group: str = "") -> list[SubagentState]:
    """List the candidates of a turn, "" = of the latest one that had any."""
    candidates = [subagent for subagent in state.subagents.values() if subagent.candidate_of]
    turn = group or (candidates[-1].candidate_of if candidates else "")
    return [candidate for candidate in candidates if candidate.candidate_of == turn]


def read_candidate(parent: Session, name: str) -> CandidateWork:
    """Read what a candidate changed. Raises `StateError` if it is not there any more."""
    child = parent.subagents.get(name)
    if child is not None:
        return _compare(child.review, Contents(child.shadow.blobs))
    log, state = parent.directory.get_subagent_log(name), SessionState(session_id=name)
    read_log(log, partial(apply_event, state))
    blobs = log.parent / "blobs"
    if not blobs.is_dir():
        raise StateError("what this candidate changed is not there any more.", hint="Try the prompt again.")
    return _compare(state.review, Contents(BlobStore(blobs)))


def _compare(review: ReviewState, contents: Contents) -> CandidateWork:
    checkpoint = next(iter(review.checkpoints.values()), None)
    before = checkpoint.changes if checkpoint is not None else {}
    pairs = compare_changes(before, review.changes, lambda path: before[path].base)
    changes = tuple(contents.build_change(path, sides) for path, sides in pairs)
    checks = dict.fromkeys(change.check for change in review.changes.values() if change.check is not None)
    return CandidateWork(contents, changes, tuple(checks))


def choose_check(works: Iterable[CandidateWork]) -> str:
    """Choose the command that most of them ran over what they changed, "" = none ran any."""
    commands = [command for work in works for command in dict.fromkeys(check.command for check in work.checks)]
    return max(commands, key=commands.count, default="")


async def take_picks(parent: Session, picks: Sequence[CandidatePick]) -> None:
    """Merge parts of candidates into what is pending, candidate by candidate. Raises `StateError`."""
    for name in dict.fromkeys(pick.id for pick in picks):
        candidate_picks = [pick for pick in picks if pick.id == name]
        if any(not pick.path for pick in candidate_picks):
            merge = await _take_all(parent, name)
        else:
            merge = _take_parts(parent, name, candidate_picks)
            parent.emit(merge)
            parent.log.sync()
        if merge.conflicts:
            title = parent.state.subagents[name].title
            message = f"{title}: it clashes with what is pending in {', '.join(merge.conflicts)}."
            parent.emit(Notice(level="warning", message=message, hint="Settle it in the review (t)."))


async def _take_all(parent: Session, name: str) -> SubagentMerged:
    child = open_subagent_session(parent, name)
    if child is None:
        raise StateError("what this candidate changed is not there any more.", hint="Try the prompt again.")
    try:
        return merge_subagent(parent, child)
    finally:
        parent.subagents.pop(name, None)
        await child.close()


def _take_parts(parent: Session, name: str, picks: Sequence[CandidatePick]) -> SubagentMerged:
    work, origin = read_candidate(parent, name), build_origin(parent.state.subagents[name])
    paths, notes, refused_paths = [], [], []
    for pick in picks:
        change = work.find(pick.path)
        target_state = work.select(change, pick.hunks)
        for state in (change.base, target_state):
            if state.kind != "absent":
                parent.shadow.blobs.put(work.contents.read(state))
        try:
            parent.shadow.merge_effect(PathEffect(path=pick.path, base=change.base, result=target_state, origin=origin))
        except StateError:
            raise
        except AgentTuiError as problem:
            refused_paths.append(pick.path)
            notes.append(f"{pick.path} could not be taken over: {problem.message}")
            continue
        paths.append(pick.path)
        if pick.hunks and target_state != change.pending:
            notes.append(f"{pick.path}: {len(pick.hunks)} of {len(change.hunks)} hunks were taken.")
    changes = parent.review.changes
    conflicts = tuple(path for path in paths if has_conflict_with(changes.get(path), name))
    return SubagentMerged(
        id=name, paths=tuple(paths), conflicts=conflicts, notes=tuple(notes), refused=tuple(refused_paths)
    )
