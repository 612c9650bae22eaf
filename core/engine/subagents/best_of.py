"""Try a prompt several times at once, each time in its own session and shadow, and let the user choose.

It is a turn of the parent without a model. Nothing is merged automatically: the changes of a candidate stay with it
until the user takes all of them, or hunks. When all have ended, the check command that most of them ran also runs in
the others, so that they can be compared. The changes are read from a candidate's log and blobs, which opens no session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial

from msgspec import Struct

from core.agent.base.budget import SubagentLimits
from core.agent.mentions.sources import PromptSurroundings
from core.agent.turn.turn_frame import STOP_LIMIT, Ending
from core.engine.session.session import Session, copy_attachments
from core.engine.subagents.runner import SubagentEnd, SubagentRunner, is_granted_to_subagent, set_model
from core.engine.subagents.sessions import build_origin, create_subagent_session, merge_subagent, open_subagent_session
from core.engine.subagents.subagent_turn import SubagentTurn
from core.engine.subagents.todo_runner import verify_todo
from core.engine.turns.lifecycle import build_context
from core.errors import AgentTuiError, StateError
from core.protocol import events as ev
from core.protocol.commands import CandidatePick
from core.protocol.documents import Todo
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
from core.tasks import cancel_tasks
from core.text.counting import count


class CandidateWork(Struct, frozen=True):
    """The changes of a candidate since its start, and the checks that ran over their current state."""

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
        """Return the state of a file with only these hunks, () = with all. Raises `StateError`."""
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
    """Read the changes of a candidate. Raises `StateError` if its data was removed."""
    child = parent.subagents.get(name)
    if child is not None:
        return _compare(child.review, Contents(child.shadow.blobs))
    log, state = parent.directory.get_subagent_log(name), SessionState(session_id=name)
    read_log(log, partial(apply_event, state))
    blobs = log.parent / "blobs"
    if not blobs.is_dir():
        raise StateError("the changes of this candidate no longer exist.", hint="Try the prompt again.")
    return _compare(state.review, Contents(BlobStore(blobs)))


def _compare(review: ReviewState, contents: Contents) -> CandidateWork:
    checkpoint = next(iter(review.checkpoints.values()), None)
    before = checkpoint.changes if checkpoint is not None else {}
    pairs = compare_changes(before, review.changes, lambda path: before[path].base)
    changes = tuple(contents.build_change(path, sides) for path, sides in pairs)
    checks = dict.fromkeys(change.check for change in review.changes.values() if change.check is not None)
    return CandidateWork(contents, changes, tuple(checks))


def choose_check(works: Iterable[CandidateWork]) -> str:
    """Choose the command that most candidates ran over their changes, "" = none ran any."""
    commands = [command for work in works for command in dict.fromkeys(check.command for check in work.checks)]
    return max(commands, key=commands.count, default="")


async def merge_picks(parent: Session, picks: Sequence[CandidatePick]) -> None:
    """Merge parts of candidates into the pending changes, candidate by candidate. Raises `StateError`."""
    for name in dict.fromkeys(pick.id for pick in picks):
        candidate_picks = [pick for pick in picks if pick.id == name]
        if any(not pick.path for pick in candidate_picks):
            merge = await _merge_all(parent, name)
        else:
            merge = _merge_parts(parent, name, candidate_picks)
            parent.emit(merge)
            parent.log.sync()
        if merge.conflicts:
            title = parent.state.subagents[name].title
            message = f"{title}: it conflicts with pending changes in {', '.join(merge.conflicts)}."
            parent.emit(Notice(level="warning", message=message, hint="Resolve it in the review (t)."))


async def _merge_all(parent: Session, name: str) -> SubagentMerged:
    child = open_subagent_session(parent, name)
    if child is None:
        raise StateError("the changes of this candidate no longer exist.", hint="Try the prompt again.")
    try:
        return merge_subagent(parent, child)
    finally:
        parent.subagents.pop(name, None)
        await child.close()


def _merge_parts(parent: Session, name: str, picks: Sequence[CandidatePick]) -> SubagentMerged:
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
            notes.append(f"{pick.path} could not be copied: {problem.message}")
            continue
        paths.append(pick.path)
        if pick.hunks and target_state != change.pending:
            notes.append(f"{pick.path}: {len(pick.hunks)} of {len(change.hunks)} hunks were copied.")
    changes = parent.review.changes
    conflicts = tuple(path for path in paths if has_conflict_with(changes.get(path), name))
    return SubagentMerged(
        id=name, paths=tuple(paths), conflicts=conflicts, notes=tuple(notes), refused=tuple(refused_paths)
    )


class CandidateRunner(SubagentRunner):
    """Runs one candidate: the prompt, and then the common check command once that is known."""

    def __init__(
        self, parent: Session, child: Session, start_event: ev.SubagentStarted, limits: SubagentLimits, best: BestOf
    ) -> None:
        self._best = best
        super().__init__(parent, child, start_event, limits)

    async def work(self) -> SubagentEnd:
        end = await self.run_turn(self._best.prompt, "", self._best.surroundings)
        self.reporter.stop_clock()
        work = read_candidate(self.parent, self.id)
        is_checkable = end.reason != "interrupted" and bool(work.changes)
        if end.reason == "done" or is_checkable:
            self.reporter.report_wait("waiting for the others")
        else:
            self.report_end(end)
        command = await self._best.wait_for_check(self.id)
        self.reporter.report_wait("")
        if command and is_checkable and all(past_check.command != command for past_check in work.checks):
            await self._check(command)
            work = read_candidate(self.parent, self.id)
        files = tuple(
            ev.ChangedFile(path=change.path, added=change.added, removed=change.removed) for change in work.changes
        )
        check = next((past_check for past_check in work.checks if past_check.command == command), None)
        self.parent.emit(ev.SubagentRated(id=self.id, files=files, check=check))
        return end

    async def _check(self, command: str) -> None:
        todo = Todo(id="check", content=f"Check “{self._best.prompt[:80]}”", status="in_progress", verify=command)
        self.reporter.report_verify(command, "running")
        reason = await verify_todo(build_context(self.child), todo)
        self.reporter.report_verify(command, "completed" if reason is None else "failed")


class BestOf(SubagentTurn):
    """One prompt and its candidates, one for each of `models` ("" = the session's)."""

    def __init__(
        self, session: Session, prompt: str, models: tuple[str, ...], surroundings: PromptSurroundings | None
    ) -> None:
        super().__init__(session)
        self.prompt = prompt
        self.surroundings = surroundings
        self._models = models
        self._children: list[Session] = []
        self._answering: set[str] = set()  # ids of candidates that still answer the prompt
        self._answered = asyncio.Event()
        self._check: str | None = None

    async def wait_for_check(self, name: str) -> str:
        """Mark `name` as answered, wait until all candidates have answered, and return the common check command, "" =
        none."""
        self._mark_answered(name)
        await self._answered.wait()
        if self._check is None:
            at_work = [child for child in self._children if child.id in self.session.subagents]
            self._check = choose_check(read_candidate(self.session, child.id) for child in at_work)
        return self._check

    def _mark_answered(self, name: str) -> None:
        self._answering.discard(name)
        if not self._answering:
            self._answered.set()

    async def work(self) -> None:
        self._children = [await create_subagent_session(self.session) for _ in self._models]
        for child in self._children:
            self._copy_conversation(child)
        self._answering = {child.id for child in self._children}
        tasks = [
            self.owner.start(self._run_candidate(child, model, number), name=f"candidate {number}")
            for number, (child, model) in enumerate(zip(self._children, self._models, strict=True), 1)
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            await cancel_tasks(tasks, limit=STOP_LIMIT)

    def _copy_conversation(self, child: Session) -> None:
        """Copy the conversation so far to a candidate, with the pictures and PDFs of it and of the prompt."""
        blobs = self.session.shadow.blobs
        for message in self.history:
            for attachment in getattr(message, "attachments", ()):
                child.shadow.blobs.put(blobs.get(attachment.digest))
            child.emit(ev.MessageAppended(message=message))
        copy_attachments(self.session, child, self.prompt)

    async def _run_candidate(self, child: Session, model: str, number: int) -> None:
        limits = SubagentLimits(parent_grants=partial(is_granted_to_subagent, self.context), budget=self.spent)
        set_model(child, model, "")
        name = child.state.model.rpartition("/")[2]
        title = f"{number} · {name}" if len(set(self._models)) > 1 else f"candidate {number}"
        start_event = ev.SubagentStarted(id=child.id, title=title, candidate_of=self.context.turn_id)
        runner = CandidateRunner(self.session, child, start_event, limits, self)
        end = SubagentEnd(reason="interrupted")
        try:
            end = await runner.run()
        except AgentTuiError as problem:
            end = SubagentEnd(reason="failed", message=problem.format_with_hint())
        finally:
            self._mark_answered(child.id)  # also after a failure, so that the others do not wait
            await runner.close(end)

    def find_outcome(self) -> Ending:
        return "done", ""

    def report(self) -> tuple[str, str]:
        state, turn = self.session.state, self.context.turn_id
        candidates = [candidate for candidate in state.subagents.values() if candidate.candidate_of == turn]
        rows = [_describe_candidate(candidate.title, candidate.rating, candidate.message) for candidate in candidates]
        summary = "\n".join([f"The prompt was tried {len(candidates)} times. None of it is pending yet.", *rows])
        return summary, f"{summary}\n\n`/best` compares them; choose one, or hunks of several."


def _describe_candidate(title: str, rating: ev.SubagentRated | None, message: str) -> str:
    if rating is None:
        return f"- {title}: {message or 'it was stopped'}"
    added_count, removed_count = sum(file.added for file in rating.files), sum(file.removed for file in rating.files)
    size = f"{count('file', len(rating.files))}, +{added_count} −{removed_count}"
    if rating.check is None:
        check_note = "not checked"
    else:
        check_note = f"`{rating.check.command}` {'passed' if rating.check.has_passed else 'failed'}"
    return f"- {title}: {size}, {check_note}{f' ({message})' if message else ''}"
