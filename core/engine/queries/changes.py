"""Queries about pending changes, commits, checkpoints and candidates."""

from __future__ import annotations

import asyncio
from typing import Literal, TypeVar

from core.engine.commands.checkpoints import find_checkpoint
from core.engine.queries.source import QuerySource, ReviewSource
from core.engine.session.session import Session
from core.errors import AgentTuiError
from core.protocol import queries as q
from core.protocol.base import Answer
from core.protocol.review import Change, ChangeDiff, FileState
from core.secrets import list_masked_values, mask_secrets
from core.shadow.diff.diff_lines import build_diff
from core.shadow.file_checkpoints import RestoreStep
from core.state.session import ConversationCheckpoint, SubagentState
from core.text.well_formed import convert_record

AnswerT = TypeVar("AnswerT", bound=Answer)


def answer_diff(source: ReviewSource, query: q.DiffQuery) -> q.DiffAnswer:
    shadow = source.require_session(query.session).shadow
    return q.DiffAnswer(diff=shadow.diff(query.path, query.context, query.width))


def answer_hunk(source: QuerySource, query: q.HunkQuery) -> q.HunkAnswer:
    path, hunk = query.path, query.hunk
    hunk_text = source.require_session(query.session).shadow.hunk_edits.read_text(path, hunk)
    return q.HunkAnswer(path=path, hunk=hunk, text=hunk_text.text, start=hunk_text.start, language=hunk_text.language)


def answer_conflict(source: QuerySource, query: q.ConflictQuery) -> q.ConflictAnswer:
    return q.ConflictAnswer(sides=source.require_session(query.session).shadow.conflicts.read_sides(query.path))


def mask_answer(answer: AnswerT) -> AnswerT:
    """Return an answer with git's output without the credentials in remote addresses."""
    raw = repr(answer)
    return convert_record(answer, mask_secrets) if any(value in raw for value in list_masked_values()) else answer


async def answer_git_preview(source: ReviewSource, query: q.GitPreviewQuery) -> q.GitPreviewAnswer:
    git = source.require_session(query.session).shadow.bulks.git
    return mask_answer(q.GitPreviewAnswer(preview=await asyncio.to_thread(git.preview, query.root)))


def answer_verification(source: QuerySource, query: q.VerificationQuery) -> q.VerificationAnswer:
    from core.engine.session.verification import plan_verification

    session = source.require_session(query.session)
    return plan_verification(session.state, session.settings.commands.checks, query).describe()


async def answer_commit(source: ReviewSource, query: q.CommitQuery) -> q.CommitAnswer:
    from core.engine.commits.preview import build_preview

    return mask_answer(await asyncio.to_thread(build_preview, source.require_session(query.session), query))


async def answer_patch(source: ReviewSource, query: q.PatchQuery) -> q.PatchAnswer:
    from core.engine.commits.patch import build_patch

    return await asyncio.to_thread(build_patch, source.require_session(query.session), query)


async def answer_pull_request(source: ReviewSource, query: q.PullRequestQuery) -> q.PullRequestAnswer:
    from core.engine.commits.pull_request import build_pull_request

    return mask_answer(await asyncio.to_thread(build_pull_request, source.require_session(query.session)))


async def answer_picture(source: QuerySource, query: q.PictureQuery) -> q.PictureAnswer:
    from core.attachments.pictures import render_preview

    blobs = source.require_session(query.session).shadow.blobs
    data = await asyncio.to_thread(blobs.get, query.digest)
    return q.PictureAnswer(rows=await asyncio.to_thread(render_preview, data, query.columns, query.rows))


def answer_checkpoints(source: QuerySource, query: q.CheckpointsQuery) -> q.CheckpointsAnswer:
    """Return all checkpoints, oldest first."""
    session = source.require_session(query.session)
    return q.CheckpointsAnswer(
        checkpoints=tuple(_describe_checkpoint(session, mark) for mark in session.state.checkpoints.values())
    )


def answer_checkpoint_preview(source: QuerySource, query: q.CheckpointPreviewQuery) -> q.CheckpointPreviewAnswer:
    """Return the changes that a restore would make. Raises `CommandRejected` for an unknown id."""
    session = source.require_session(query.session)
    mark, files = find_checkpoint(session, query.id), session.shadow.checkpoints
    restored_paths = (_describe_path(step) for step in files.plan(query.id))
    return q.CheckpointPreviewAnswer(
        info=_describe_checkpoint(session, mark),
        paths=tuple(
            restored_path
            for restored_path in restored_paths
            if restored_path.pending or restored_path.disk or restored_path.reason
        ),
        bulks=files.find_changed_bulks(query.id),
        messages=max(len(session.state.messages) - mark.messages, 0),
    )


def _describe_checkpoint(session: Session, mark: ConversationCheckpoint) -> q.CheckpointInfo:
    files = session.shadow.checkpoints
    return q.CheckpointInfo(
        id=mark.id,
        seq=mark.seq,
        at=mark.at,
        prompt=mark.prompt,
        before=mark.before,
        files=len(files.find_changed_paths(mark.id)) + len(files.find_changed_bulks(mark.id)),
        generated=mark.generated,
        left=session.state.is_checkpoint_left(mark),
        problem=files.describe_problem(mark.id),
    )


def _describe_path(step: RestoreStep) -> q.RestoredPath:
    if step.reason:
        return q.RestoredPath(path=step.path, reason=step.reason)
    return q.RestoredPath(
        path=step.path,
        pending=_classify_pending_effect(step.now, step.change),
        disk=_classify_disk_effect(step.disk, step.target),
    )


def _classify_pending_effect(now: Change | None, checkpoint_change: Change | None) -> q.PendingEffect:
    if now == checkpoint_change:
        return ""
    if checkpoint_change is None:
        return "resolve"
    return "propose" if now is None else "revise"


def _classify_disk_effect(now: FileState, checkpoint_state: FileState) -> q.DiskEffect:
    if now == checkpoint_state:
        return ""
    if checkpoint_state.kind == "absent":
        return "delete"
    return "create" if now.kind == "absent" else "edit"


async def answer_candidates(source: QuerySource, query: q.CandidatesQuery) -> q.CandidatesAnswer:
    """Return the candidates of a prompt with their changes."""
    from core.engine.subagents.best_of import list_candidates

    session = source.require_session(query.session)
    candidates = list_candidates(session.state, query.turn)
    turns = {turn.id: turn.prompt for turn in session.state.turns}
    prompt = turns.get(candidates[0].candidate_of, "") if candidates else ""
    rows = [await asyncio.to_thread(_describe_candidate, session, candidate) for candidate in candidates]
    return q.CandidatesAnswer(prompt=prompt, candidates=tuple(rows))


def _describe_candidate(session: Session, candidate: SubagentState) -> q.TriedCandidate:
    from core.engine.subagents.best_of import read_candidate

    state: Literal["working", "ended", "taken", "gone"] = "working" if candidate.state == "working" else "ended"
    state = "taken" if candidate.state in {"merged", "merging"} else state
    changes: tuple[ChangeDiff, ...] = ()
    try:
        work = read_candidate(session, candidate.id)
        changes = tuple(build_diff(change, *work.contents.read_change(change)) for change in work.changes)
    except AgentTuiError:
        state = "gone"
    return q.TriedCandidate(
        id=candidate.id,
        title=candidate.title,
        model=candidate.model,
        state=state,
        message=candidate.message,
        said=candidate.said,
        usage=candidate.usage,
        duration_ms=candidate.duration_ms,
        check=candidate.rating.check if candidate.rating is not None else None,
        changes=changes,
    )
