"""The screen's state: a pure fold of the event stream, without a widget in it.

`ViewState.apply` is called once per envelope, live or replayed; both give the same state, because lossy
events leave nothing behind once the durable event that completes them has come. Each call returns the
topics it touched.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from core.protocol import events
from core.protocol.documents import AnyDocument, Todo
from core.protocol.messages import Usage
from core.protocol.plans import Plan
from core.protocol.renames import list_changes
from core.protocol.review import Bulk, Change, Comment
from tui.asking_fold import QuestionLog, fold_asked, is_awaited
from tui.block import TranscriptBlock as TranscriptBlock  # noqa: PLC0414 (part of what the fold gives)
from tui.crew_fold import fold_crew
from tui.debug_fold import DebugView, fold_debug
from tui.model_fold import fold_model
from tui.plan_fold import marked
from tui.retry_fold import PendingRetry, fold_retried
from tui.review_fold import fold_refused, fold_review
from tui.rewind_fold import describe_restore, fold_rewind
from tui.steering_fold import SteeringQueue, fold_said

Topic = Literal["blocks", "review", "plan", "debug", "ask", "status", "files", "session", "queue"]

MAX_OUTPUT_CHARS: Final = 16_000
_NOTHING: frozenset[Topic] = frozenset()
_OF_CALLS: Final = (events.ToolRequested, events.ToolFinished)


def make_topics(*names: Topic) -> frozenset[Topic]:
    return frozenset(names)


@dataclass(slots=True)
class ViewState:
    """The fold. `seq` is the last durable event seen; `blocks` are in the order of the transcript; `retry`: the
    model call that waits to be tried again; `is_pending_kept`: the pending changes of a private session were
    kept."""

    session_id: str = ""
    seq: int = 0
    workspace: str = ""
    title: str = ""
    is_demo: bool = False
    is_private: bool = False
    is_pending_kept: bool = False
    mode: events.ModeName = "agent"
    model: str = ""
    limits: events.LimitsChanged = field(default_factory=events.LimitsChanged)
    policy: events.PolicyChanged = field(default_factory=events.PolicyChanged)
    route: events.RouteTaken | None = None
    context_used: int = 0
    context_window: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    is_running: bool = False
    turn_id: str = ""
    step: int = 0
    retry: PendingRetry | None = None
    steering: SteeringQueue = field(default_factory=SteeringQueue)
    blocks: list[TranscriptBlock] = field(default_factory=list)
    blocks_by_key: dict[str, TranscriptBlock] = field(default_factory=dict)
    calls: dict[str, str] = field(default_factory=dict)
    changes: dict[str, Change] = field(default_factory=dict)
    bulks: tuple[Bulk, ...] = ()
    comments: dict[tuple[str, str], Comment] = field(default_factory=dict)
    turn_numbers: dict[str, int] = field(default_factory=dict)
    verdict_ids: list[str] = field(default_factory=list)
    refusals: dict[str, str] = field(default_factory=dict)
    plans: dict[str, Plan] = field(default_factory=dict)
    current_plan_path: str = ""
    todos: tuple[Todo, ...] = ()
    todos_plan_path: str = ""
    verifications: dict[str, events.TodoVerified] = field(default_factory=dict)
    approvals: dict[str, events.ApprovalRequested] = field(default_factory=dict)
    questions: QuestionLog = field(default_factory=QuestionLog)
    trust: events.TrustStated | None = None
    noted_rules: set[str] = field(default_factory=set)
    touched_paths: set[str] = field(default_factory=set)
    removed_block_count: int = 0
    checkpoint_marks: dict[str, tuple[int, int]] = field(default_factory=dict)
    left_transcripts: list[list[TranscriptBlock]] = field(default_factory=list)
    suggestion: events.PromptSuggested | None = None
    box: events.BoxFound | None = None
    jobs: dict[str, events.JobStarted] = field(default_factory=dict)
    debug: DebugView = field(default_factory=DebugView)
    subagent_blocks: dict[str, TranscriptBlock] = field(default_factory=dict)

    @property
    def takes_commands(self) -> bool:
        """True if what the user types is a command: only theirs run, and no turn is there to be steered."""
        return self.policy.policy == "human" and not self.is_running

    @property
    def is_running_command(self) -> bool:
        """True if a command of the user's own runs."""
        return any(call.startswith("user_") for call in self.calls)

    @property
    def awaited_question(self) -> events.QuestionAsked | None:
        """The question that the running turn waits for."""
        return next((each.event for each in self.questions.open.values() if is_awaited(self, each)), None)

    @property
    def open_question(self) -> events.QuestionAsked | None:
        """The question to be answered: the one that a turn waits for, else the last that was left open."""
        left = next(reversed(self.questions.open.values()), None)
        return self.awaited_question or (left.event if left is not None else None)

    @property
    def pending_hunk_count(self) -> int:
        """Number of hunks and bulks that wait for a verdict."""
        hunks = sum(max(len(change.hunks), 1) for change in list_changes(self.changes))
        return hunks + sum(each.needs_verdict for each in self.bulks)

    @property
    def current_plan(self) -> Plan | None:
        """The plan that was created or changed last."""
        return self.plans.get(self.current_plan_path)

    @property
    def plan_todos(self) -> tuple[Todo, ...]:
        """The todos of the plan at hand, as they are now; those of the session if they belong to no plan."""
        plan = self.current_plan
        return self.todos if plan is None or self.todos_plan_path in {"", plan.path} else plan.todos

    def list_prompts_after(self, seq: int) -> list[str]:
        """Return the user's prompts and messages after that event."""
        said = (block for block in self.blocks if block.kind in {"prompt", "steer"})
        told = [block.text for block in said if int(block.key.split(":")[1]) > seq]
        return [*told, *self.steering.list_after(seq)]

    def apply(self, envelope: events.Envelope) -> frozenset[Topic]:
        """Apply one event and return the topics it touched. An envelope that was seen already changes nothing."""
        event = envelope.event
        if not isinstance(event, events.LossyEvent):
            if envelope.seq <= self.seq and envelope.session == self.session_id:
                return _NOTHING
            self.seq = envelope.seq
            self.session_id = envelope.session or self.session_id
        if isinstance(event, events.DocumentDelta):
            return self._apply_delta(event)
        if fold_debug(self, event):
            return make_topics("debug")
        if (topics := fold_crew(self, event, envelope)) is not None:
            return topics
        for group in (
            self._apply_turn_event,
            self._apply_document_event,
            self._apply_review_event,
            self._apply_question_event,
            self._apply_terminal_event,
            self._apply_other_event,
        ):
            if (topics := group(event, envelope)) is not None:
                return topics
        return _NOTHING

    def add_block(self, block: TranscriptBlock) -> TranscriptBlock:
        """Append a block."""
        self.blocks.append(block)
        self.blocks_by_key[block.key] = block
        return block

    def add_prompt(self, kind: Literal["prompt", "steer"], envelope: events.Envelope, text: str) -> None:
        """Append a block for a message of the user's, where the model read it."""
        self.add_block(TranscriptBlock(f"{kind}:{envelope.seq}:{len(self.blocks)}", kind, envelope.turn, text=text))

    def begin_block(self, key: str, kind: str, turn: str, title: str) -> TranscriptBlock:
        """Append a running block."""
        return self.add_block(TranscriptBlock(key, kind, turn, title=title, status="running"))

    def drop_block(self, block: TranscriptBlock) -> None:
        """Remove a block."""
        self.blocks.remove(block)
        del self.blocks_by_key[block.key]
        self.removed_block_count += 1

    def _apply_delta(self, event: events.DocumentDelta) -> frozenset[Topic]:
        block = self.blocks_by_key.get(event.id)
        if block is None or block.document is not None:
            return _NOTHING
        block.live += event.text
        block.revision += 1
        return make_topics("blocks")

    def _apply_turn_event(self, event: events.AnyEvent, envelope: events.Envelope) -> frozenset[Topic] | None:
        if (is_told := fold_said(self, event, envelope)) is not None:
            return make_topics("queue", "blocks") if is_told else make_topics("queue")
        match event:
            case events.TurnStarted():
                self.is_running, self.turn_id, self.step, self.suggestion = True, envelope.turn, 0, None
                self.turn_numbers.setdefault(envelope.turn, len(self.turn_numbers) + 1)
                self.mode, self.model = event.mode, event.model or self.model
                self.steering.begin_turn()
                self.add_prompt("prompt", envelope, event.prompt)
            case events.StepStarted():
                self.step = event.step
            case events.StepFinished():
                self.retry = None
                self.add_usage(event.usage)
                self.context_used = event.context_tokens or self.context_used
                return make_topics("status")
            case events.StepRetried():
                fold_retried(self, event, envelope)
            case events.PromptSuggested():
                self.suggestion = event
                return make_topics("session")
            case events.TurnFinished():
                self._finish_turn(event, envelope)
                return make_topics("blocks", "status", "ask", "debug")
            case _:
                return None
        return make_topics("blocks", "status", "queue")

    def add_usage(self, usage: Usage) -> None:
        """Add the usage of model calls."""
        self.prompt_tokens += usage.prompt_tokens
        self.completion_tokens += usage.completion_tokens
        if usage.cost is not None:
            self.cost = (self.cost or 0.0) + usage.cost

    def _finish_turn(self, event: events.TurnFinished, envelope: events.Envelope) -> None:
        self.is_running, self.retry = False, None
        for block in [
            block for block in self.blocks[-200:] if block.is_running and block.turn and block.document is None
        ]:
            self.drop_block(block)
        text = "" if self._is_already_shown(event.message) else event.message
        end = TranscriptBlock(f"end:{envelope.seq}", "turn_end", envelope.turn, text=text, status=event.reason)
        end.usage, end.steps, end.duration_ms = event.usage, event.steps, event.duration_ms
        self.add_block(end)

    def _is_already_shown(self, message: str) -> bool:
        """True if the last block is an error or a notice with this message already."""
        last = self.blocks[-1] if self.blocks else None
        if last is None or last.kind not in {"error", "error_raised", "notice"}:
            return False
        told = (last.document.content if last.document else last.text) or ""
        return bool(told) and message.startswith(told)

    def _apply_document_event(self, event: events.AnyEvent, envelope: events.Envelope) -> frozenset[Topic] | None:
        match event:
            case events.DocumentStarted():
                self.retry = None
                if event.id not in self.blocks_by_key:
                    self.begin_block(event.id, event.kind, envelope.turn, event.title).language = event.language
            case events.DocumentFinished():
                self._finish_document(event.document, envelope.turn)
            case events.ToolRequested():
                self.calls[event.call] = event.document
                if block_of_call := self.blocks_by_key.get(event.document):
                    block_of_call.title = block_of_call.title or event.tool
                    block_of_call.subject = event.summary
                    block_of_call.revision += 1
            case events.ToolOutput():
                if block_of_call := self.blocks_by_key.get(self.calls.get(event.call, "")):
                    block_of_call.output = (block_of_call.output + event.text)[-MAX_OUTPUT_CHARS:]
                    block_of_call.revision += 1
            case events.ToolFinished():
                self._finish_call(event)
            case _:
                return None
        return make_topics("blocks", "status") if isinstance(event, _OF_CALLS) else make_topics("blocks")

    def _finish_document(self, document: AnyDocument, turn: str) -> None:
        kind = str(document.__struct_config__.tag)
        block = self.blocks_by_key.get(document.id) or self.add_block(TranscriptBlock(document.id, kind, turn))
        block.kind, block.document, block.live, block.output = kind, document, "", ""
        if block.status == "running":
            block.status = ""
        block.revision += 1

    def _finish_call(self, event: events.ToolFinished) -> None:
        block = self.blocks_by_key.get(self.calls.pop(event.call, ""))
        if block is None:
            return
        block.status, block.duration_ms = event.status, event.duration_ms
        block.summary = event.summary or block.summary
        block.revision += 1

    def _apply_review_event(self, event: events.AnyEvent, _: events.Envelope) -> frozenset[Topic] | None:
        if (is_other := fold_rewind(self, event)) is not None:
            return make_topics("blocks", "status", "session", "ask", "debug") if is_other else _NOTHING
        if fold_review(self, event):
            return make_topics("review", "status", "files")
        match event:
            case events.FileWritten():
                self.touched_paths.add(event.path)
            case events.FilesChanged():
                self.touched_paths.update(event.paths)
            case _:
                return None
        return make_topics("files")

    def _apply_question_event(self, event: events.AnyEvent, envelope: events.Envelope) -> frozenset[Topic] | None:
        return make_topics("ask", "status", "blocks", "debug") if fold_asked(self, event, envelope.turn) else None

    def _apply_terminal_event(self, event: events.AnyEvent, envelope: events.Envelope) -> frozenset[Topic] | None:
        match event:
            case events.BoxFound():
                self.box = event
            case events.LimitsChanged():
                self.limits = event
            case events.PolicyChanged():
                self.policy = event
            case events.JobStarted():
                self.jobs[event.id] = event
            case events.JobEnded():
                self.jobs.pop(event.id, None)
                end = f"exit code {event.exit_code}" if event.exit_code is not None else event.ended.replace("_", " ")
                text = f"{event.id} has ended: {event.command}"
                hint = f"{end}; {event.effects}"
                self.add_block(
                    TranscriptBlock(f"said:{envelope.seq}", "notice", envelope.turn, text=text, hint=hint, level="info")
                )
                return make_topics("blocks", "status")
            case _:
                return None
        return make_topics("status")

    def _apply_other_event(self, event: events.AnyEvent, envelope: events.Envelope) -> frozenset[Topic] | None:
        match event:
            case events.SessionStarted():
                self.workspace, self.is_demo, self.title = event.workspace, event.demo, event.title
                self.is_private = event.private
                self.mode, self.model = event.mode, event.model
            case events.SessionRenamed():
                self.title = event.title
            case events.ModeChanged():
                self.mode = event.mode
            case events.ContextMeasured():
                self.context_used, self.context_window = event.used, event.window or self.context_window
                return make_topics("status")
            case events.PlanCreated(plan=plan) | events.PlanUpdated(plan=plan):
                self.plans[plan.path], self.current_plan_path = plan, plan.path
                return make_topics("plan", *marked(self, plan.path, plan.todos))
            case events.TodoVerified():
                self.verifications[event.id] = event
                return make_topics("plan")
            case events.TodoChanged():
                self.todos, self.todos_plan_path = event.todos, event.plan
                return make_topics("plan", *marked(self, event.plan, event.todos))
            case _:
                return (
                    make_topics("session", "status") if fold_model(self, event) else self._add_notice(event, envelope)
                )
        return make_topics("session", "status", "debug")

    def _add_notice(self, event: events.AnyEvent, envelope: events.Envelope) -> frozenset[Topic]:
        key, turn = f"said:{envelope.seq}", envelope.turn
        match event:
            case events.SessionResumed(repaired=repaired) if repaired:
                self.add_block(TranscriptBlock(key, "notice", turn, text=repaired, level="info"))
            case events.CheckpointRestored():
                self.add_block(
                    TranscriptBlock(
                        key, "notice", turn, text=describe_restore(event), hint="/rewind takes that back", level="info"
                    )
                )
            case events.Notice():
                self.add_block(
                    TranscriptBlock(key, "notice", turn, text=event.message, hint=event.hint, level=event.level)
                )
            case events.RulesLoaded(rules=rules):
                fresh = [
                    text
                    for rule in rules
                    if rule.note and (text := f"{rule.path}: {rule.note}") not in self.noted_rules
                ]
                self.noted_rules.update(fresh)
                if not fresh:
                    return _NOTHING
                self.add_block(TranscriptBlock(key, "notice", turn, text="\n".join(fresh), level="warning"))
            case events.ErrorRaised() if self._is_already_shown(event.message):
                return _NOTHING
            case events.ErrorRaised():
                self.add_block(
                    TranscriptBlock(key, "error_raised", turn, text=event.message, hint=event.hint, title=event.code)
                )
                return fold_refused(self, event)
            case events.ContextCompacted():
                text = f"history compacted: {event.before_tokens:,} to {event.after_tokens:,} tokens"
                self.context_used = event.after_tokens
                self.add_block(TranscriptBlock(key, "notice", turn, text=text, level="info"))
            case _:
                return _NOTHING
        return make_topics("blocks", "status")
