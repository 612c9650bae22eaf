"""Try a prompt several times at once, each time in a session and a shadow of its own, and let the user choose.

It is a turn of the parent without a model. Nothing is merged by itself: what a candidate did stays with it until the
user takes it, or hunks of it. When all have ended, the check command that most of them ran runs in the others too, so
that they can be compared.
"""

from __future__ import annotations

import asyncio
from functools import partial

from core.agent.base.budget import SubagentLimits
from core.agent.mentions.sources import PromptSurroundings
from core.engine.session.session import Session, copy_attachments
from core.engine.session.turns import build_context
from core.engine.subagents.candidates import choose_check, read_candidate
from core.engine.subagents.grants import is_granted_below
from core.engine.subagents.runner import SubagentEnd, SubagentRunner, choose_model
from core.engine.subagents.sessions import create_subagent_session
from core.engine.subagents.subagent_turn import STOP_LIMIT, SubagentTurn
from core.engine.subagents.todo_runner import verify_todo
from core.errors import AgentTuiError
from core.protocol import events as ev
from core.protocol.documents import Todo
from core.protocol.messages import AssistantMessage
from core.tasks import cancel_tasks


class CandidateRunner(SubagentRunner):
    """Runs one candidate: the prompt, and then the command that all are checked by, when that is known."""

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
            self.reporter.report_wait("waits for the others")
        else:
            self.report_end(end)
        command = await self._best.agree_on_check(self.id)
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
        self.reporter.report_verify(command, "failed" if reason else "completed")


class BestOf(SubagentTurn):
    """One prompt and its candidates, one for each of `models` ("" = the session's)."""

    def __init__(
        self, session: Session, prompt: str, models: tuple[str, ...], surroundings: PromptSurroundings | None
    ) -> None:
        super().__init__(session)
        self.prompt = prompt
        self.surroundings = surroundings
        self._models = models
        self._begun: list[Session] = []
        self._answering: set[str] = set()  # whose prompt is being answered
        self._answered = asyncio.Event()
        self._check: str | None = None

    async def agree_on_check(self, name: str) -> str:
        """Wait until every candidate has answered, as `name` has now; return the command that all are checked by, "" =
        none."""
        self._note_answered(name)
        await self._answered.wait()
        if self._check is None:
            at_work = [child for child in self._begun if child.id in self.session.subagents]
            self._check = choose_check(read_candidate(self.session, child.id) for child in at_work)
        return self._check

    def _note_answered(self, name: str) -> None:
        self._answering.discard(name)
        if not self._answering:
            self._answered.set()

    async def work(self) -> None:
        self._begun = [await create_subagent_session(self.session) for _ in self._models]
        for child in self._begun:
            self._copy_conversation(child)
        self._answering = {child.id for child in self._begun}
        tasks = [
            self.owner.start(self._run_candidate(child, model, number), name=f"candidate {number}")
            for number, (child, model) in enumerate(zip(self._begun, self._models, strict=True), 1)
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            await cancel_tasks(tasks, limit=STOP_LIMIT)

    def _copy_conversation(self, child: Session) -> None:
        """Let a candidate know what was said before, and the pictures and PDFs of it and of the prompt."""
        blobs = self.session.shadow.blobs
        for message in self.history:
            for attachment in () if isinstance(message, AssistantMessage) else message.attachments:
                child.shadow.blobs.put(blobs.get(attachment.digest))
            child.emit(ev.MessageAppended(message=message))
        copy_attachments(self.session, child, self.prompt)

    async def _run_candidate(self, child: Session, model: str, number: int) -> None:
        limits = SubagentLimits(parent_grants=partial(is_granted_below, self.context), budget=self.spent)
        choose_model(child, model, "")
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
            self._note_answered(child.id)  # the others do not wait for one that failed
            await runner.close(end)

    def find_outcome(self) -> tuple[ev.TurnEnd, str]:
        return "done", ""

    def report(self) -> tuple[str, str]:
        state, turn = self.session.state, self.context.turn_id
        candidates = [candidate for candidate in state.subagents.values() if candidate.candidate_of == turn]
        rows = [_describe_candidate(candidate.title, candidate.rating, candidate.message) for candidate in candidates]
        summary = "\n".join([f"The prompt was tried {len(candidates)} times. Nothing of it is taken over yet.", *rows])
        return summary, f"{summary}\n\n`/best` compares them; take one, or hunks of several."


def _describe_candidate(title: str, rating: ev.SubagentRated | None, message: str) -> str:
    if rating is None:
        return f"- {title}: {message or 'it was stopped'}"
    added_count, removed_count = sum(file.added for file in rating.files), sum(file.removed for file in rating.files)
    size = f"{len(rating.files)} file{'' if len(rating.files) == 1 else 's'}, +{added_count} −{removed_count}"
    if rating.check is None:
        check_note = "not checked"
    else:
        check_note = f"`{rating.check.command}` {'passed' if rating.check.has_passed else 'failed'}"
    return f"- {title}: {size}, {check_note}{f' ({message})' if message else ''}"
