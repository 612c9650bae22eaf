"""What the screen knows: a pure fold of the event stream, without a widget in it.

`ViewState.apply` is called once per envelope, live or replayed; both give the same state, because lossy events leave
nothing behind once the durable event that completes them has come. Each call answers which topics it touched.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from core.protocol import events
from core.protocol.documents import AnyDocument, Todo
from core.protocol.messages import Usage
from core.protocol.moves import listed
from core.protocol.plans import Plan
from core.protocol.review import Bulk, Change, Comment
from tui.asking_fold import Questions, awaits, fold_asked
from tui.block import Block as Block  # noqa: PLC0414 (part of what the fold gives)
from tui.crew_fold import fold_crew
from tui.debug_fold import DebugView, fold_debug
from tui.model_fold import fold_model
from tui.plan_fold import marked
from tui.retry_fold import Waiting, fold_retried
from tui.review_fold import fold_refused, fold_review
from tui.rewind_fold import fold_rewind, told_of
from tui.steering_fold import Said, fold_said

Topic = Literal["blocks", "review", "plan", "debug", "ask", "status", "files", "session", "queue"]

OUTPUT_KEPT: Final = 16_000
_NOTHING: frozenset[Topic] = frozenset()
_OF_CALLS: Final = (events.ToolRequested, events.ToolFinished)


def _topics(*names: Topic) -> frozenset[Topic]:
    return frozenset(names)


@dataclass(slots=True)
class ViewState:
    """The fold. `seq` is the last durable event seen; `blocks` are in the order of the transcript; `waiting`:
    what a model call waits for that is tried again; `kept`: what waited for a review in a private session was kept."""

    session: str = ""
    seq: int = 0
    workspace: str = ""
    title: str = ""
    demo: bool = False
    private: bool = False
    kept: bool = False
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
    running: bool = False
    turn: str = ""
    step: int = 0
    waiting: Waiting | None = None
    said: Said = field(default_factory=Said)
    blocks: list[Block] = field(default_factory=list)
    by_key: dict[str, Block] = field(default_factory=dict)
    calls: dict[str, str] = field(default_factory=dict)
    changes: dict[str, Change] = field(default_factory=dict)
    bulks: tuple[Bulk, ...] = ()
    comments: dict[tuple[str, str], Comment] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)
    verdicts: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    plans: dict[str, Plan] = field(default_factory=dict)
    plan: str = ""
    todos: tuple[Todo, ...] = ()
    todo_plan: str = ""
    proofs: dict[str, events.TodoVerified] = field(default_factory=dict)
    approvals: dict[str, events.ApprovalRequested] = field(default_factory=dict)
    asked: Questions = field(default_factory=Questions)
    trust: events.TrustStated | None = None
    noted: set[str] = field(default_factory=set)
    touched_paths: set[str] = field(default_factory=set)
    removed_blocks: int = 0
    marks: dict[str, tuple[int, int]] = field(default_factory=dict)
    lines: list[list[Block]] = field(default_factory=list)
    suggestion: events.PromptSuggested | None = None
    box: events.BoxFound | None = None
    jobs: dict[str, events.JobStarted] = field(default_factory=dict)
    debug: DebugView = field(default_factory=DebugView)
    crew: dict[str, Block] = field(default_factory=dict)

    @property
    def types_commands(self) -> bool:
        """Whether what the user types is a command: theirs are all that run, and no turn is there to be steered."""
        return self.policy.policy == "human" and not self.running

    @property
    def runs_command(self) -> bool:
        """Whether a command of the user's own runs."""
        return any(call.startswith("user_") for call in self.calls)

    @property
    def awaited(self) -> events.QuestionAsked | None:
        """The question that the running turn waits for."""
        return next((each.event for each in self.asked.open.values() if awaits(self, each)), None)

    @property
    def open_question(self) -> events.QuestionAsked | None:
        """The question that is to be answered: the one that a turn waits for, else the last that was left open."""
        left = next(reversed(self.asked.open.values()), None)
        return self.awaited or (left.event if left is not None else None)

    @property
    def pending_hunks(self) -> int:
        """How many hunks and bulks wait for a verdict."""
        hunks = sum(max(len(change.hunks), 1) for change in listed(self.changes))
        return hunks + sum(each.waits for each in self.bulks)

    @property
    def current_plan(self) -> Plan | None:
        """The plan that was created or changed last."""
        return self.plans.get(self.plan)

    @property
    def plan_todos(self) -> tuple[Todo, ...]:
        """The todos of the plan at hand, as they are now; those of the session if they belong to no plan."""
        plan = self.current_plan
        return self.todos if plan is None or self.todo_plan in {"", plan.path} else plan.todos

    def said_after(self, seq: int) -> list[str]:
        """What the user said to the model after that event."""
        said = (block for block in self.blocks if block.kind in {"prompt", "steer"})
        told = [block.text for block in said if int(block.key.split(":")[1]) > seq]
        return [*told, *self.said.texts_after(seq)]

    def apply(self, envelope: events.Envelope) -> frozenset[Topic]:
        """Take one event in. An envelope that was seen already changes nothing."""
        event = envelope.event
        if not isinstance(event, events.LOSSY):
            if envelope.seq <= self.seq and envelope.session == self.session:
                return _NOTHING
            self.seq = envelope.seq
            self.session = envelope.session or self.session
        if isinstance(event, events.DocumentDelta):
            return self._delta(event)
        if fold_debug(self, event):
            return _topics("debug")
        if (topics := fold_crew(self, event, envelope)) is not None:
            return topics
        for group in (
            self._turn_event,
            self._document_event,
            self._review_event,
            self._ask_event,
            self._terminal_event,
            self._other_event,
        ):
            if (topics := group(event, envelope)) is not None:
                return topics
        return _NOTHING

    def add(self, block: Block) -> Block:
        """A block at the end."""
        self.blocks.append(block)
        self.by_key[block.key] = block
        return block

    def add_said(self, kind: Literal["prompt", "steer"], envelope: events.Envelope, text: str) -> None:
        """What the user said, where the model read it."""
        self.add(Block(f"{kind}:{envelope.seq}:{len(self.blocks)}", kind, envelope.turn, text=text))

    def begun(self, key: str, kind: str, turn: str, title: str) -> Block:
        """A block that goes on."""
        return self.add(Block(key, kind, turn, title=title, status="running"))

    def drop(self, block: Block) -> None:
        """Take a block out."""
        self.blocks.remove(block)
        del self.by_key[block.key]
        self.removed_blocks += 1

    def _delta(self, event: events.DocumentDelta) -> frozenset[Topic]:
        block = self.by_key.get(event.id)
        if block is None or block.document is not None:
            return _NOTHING
        block.live += event.text
        block.revision += 1
        return _topics("blocks")

    def _turn_event(self, event: events.AnyEvent, envelope: events.Envelope) -> frozenset[Topic] | None:
        if (is_told := fold_said(self, event, envelope)) is not None:
            return _topics("queue", "blocks") if is_told else _topics("queue")
        match event:
            case events.TurnStarted():
                self.running, self.turn, self.step, self.suggestion = True, envelope.turn, 0, None
                self.turns.setdefault(envelope.turn, len(self.turns) + 1)
                self.mode, self.model = event.mode, event.model or self.model
                self.said.begin_turn()
                self.add_said("prompt", envelope, event.prompt)
            case events.StepStarted():
                self.step = event.step
            case events.StepFinished():
                self.waiting = None
                self.count(event.usage)
                self.context_used = event.context_tokens or self.context_used
                return _topics("status")
            case events.StepRetried():
                fold_retried(self, event, envelope)
            case events.PromptSuggested():
                self.suggestion = event
                return _topics("session")
            case events.TurnFinished():
                self._finish_turn(event, envelope)
                return _topics("blocks", "status", "ask", "debug")
            case _:
                return None
        return _topics("blocks", "status", "queue")

    def count(self, usage: Usage) -> None:
        """What calls of a model took."""
        self.prompt_tokens += usage.prompt_tokens
        self.completion_tokens += usage.completion_tokens
        if usage.cost is not None:
            self.cost = (self.cost or 0.0) + usage.cost

    def _finish_turn(self, event: events.TurnFinished, envelope: events.Envelope) -> None:
        self.running, self.waiting = False, None
        for block in [block for block in self.blocks[-200:] if block.running and block.turn and block.document is None]:
            self.drop(block)
        text = "" if self._is_told(event.message) else event.message
        end = Block(f"end:{envelope.seq}", "turn_end", envelope.turn, text=text, status=event.reason)
        end.usage, end.steps, end.duration_ms = event.usage, event.steps, event.duration_ms
        self.add(end)

    def _is_told(self, message: str) -> bool:
        """Whether the last block is an error or a notice that says this already."""
        last = self.blocks[-1] if self.blocks else None
        if last is None or last.kind not in {"error", "error_raised", "notice"}:
            return False
        told = (last.document.content if last.document else last.text) or ""
        return bool(told) and message.startswith(told)

    def _document_event(self, event: events.AnyEvent, envelope: events.Envelope) -> frozenset[Topic] | None:
        match event:
            case events.DocumentStarted():
                self.waiting = None
                if event.id not in self.by_key:
                    self.begun(event.id, event.kind, envelope.turn, event.title).language = event.language
            case events.DocumentFinished():
                self._finish_document(event.document, envelope.turn)
            case events.ToolRequested():
                self.calls[event.call] = event.document
                if block_of_call := self.by_key.get(event.document):
                    block_of_call.title = block_of_call.title or event.tool
                    block_of_call.subject = event.summary
                    block_of_call.revision += 1
            case events.ToolOutput():
                if block_of_call := self.by_key.get(self.calls.get(event.call, "")):
                    block_of_call.output = (block_of_call.output + event.text)[-OUTPUT_KEPT:]
                    block_of_call.revision += 1
            case events.ToolFinished():
                self._finish_call(event)
            case _:
                return None
        return _topics("blocks", "status") if isinstance(event, _OF_CALLS) else _topics("blocks")

    def _finish_document(self, document: AnyDocument, turn: str) -> None:
        kind = str(document.__struct_config__.tag)
        block = self.by_key.get(document.id) or self.add(Block(document.id, kind, turn))
        block.kind, block.document, block.live, block.output = kind, document, "", ""
        if block.status == "running":
            block.status = ""
        block.revision += 1

    def _finish_call(self, event: events.ToolFinished) -> None:
        block = self.by_key.get(self.calls.pop(event.call, ""))
        if block is None:
            return
        block.status, block.duration_ms = event.status, event.duration_ms
        block.summary = event.summary or block.summary
        block.revision += 1

    def _review_event(self, event: events.AnyEvent, _: events.Envelope) -> frozenset[Topic] | None:
        if (is_other := fold_rewind(self, event)) is not None:
            return _topics("blocks", "status", "session", "ask", "debug") if is_other else _NOTHING
        if fold_review(self, event):
            return _topics("review", "status", "files")
        match event:
            case events.FileWritten():
                self.touched_paths.add(event.path)
            case events.FilesChanged():
                self.touched_paths.update(event.paths)
            case _:
                return None
        return _topics("files")

    def _ask_event(self, event: events.AnyEvent, envelope: events.Envelope) -> frozenset[Topic] | None:
        return _topics("ask", "status", "blocks", "debug") if fold_asked(self, event, envelope.turn) else None

    def _terminal_event(self, event: events.AnyEvent, envelope: events.Envelope) -> frozenset[Topic] | None:
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
                self.add(Block(f"said:{envelope.seq}", "notice", envelope.turn, text=text, hint=hint, level="info"))
                return _topics("blocks", "status")
            case _:
                return None
        return _topics("status")

    def _other_event(self, event: events.AnyEvent, envelope: events.Envelope) -> frozenset[Topic] | None:
        match event:
            case events.SessionStarted():
                self.workspace, self.demo, self.title = event.workspace, event.demo, event.title
                self.private = event.private
                self.mode, self.model = event.mode, event.model
            case events.SessionRenamed():
                self.title = event.title
            case events.ModeChanged():
                self.mode = event.mode
            case events.ContextMeasured():
                self.context_used, self.context_window = event.used, event.window or self.context_window
                return _topics("status")
            case events.PlanCreated(plan=plan) | events.PlanUpdated(plan=plan):
                self.plans[plan.path], self.plan = plan, plan.path
                return _topics("plan", *marked(self, plan.path, plan.todos))
            case events.TodoVerified():
                self.proofs[event.id] = event
                return _topics("plan")
            case events.TodoChanged():
                self.todos, self.todo_plan = event.todos, event.plan
                return _topics("plan", *marked(self, event.plan, event.todos))
            case _:
                return _topics("session", "status") if fold_model(self, event) else self._said(event, envelope)
        return _topics("session", "status", "debug")

    def _said(self, event: events.AnyEvent, envelope: events.Envelope) -> frozenset[Topic]:
        key, turn = f"said:{envelope.seq}", envelope.turn
        match event:
            case events.SessionResumed(repaired=repaired) if repaired:
                self.add(Block(key, "notice", turn, text=repaired, level="info"))
            case events.CheckpointRestored():
                self.add(Block(key, "notice", turn, text=told_of(event), hint="/rewind takes that back", level="info"))
            case events.Notice():
                self.add(Block(key, "notice", turn, text=event.message, hint=event.hint, level=event.level))
            case events.RulesLoaded(rules=rules):
                fresh = [
                    text for rule in rules if rule.note and (text := f"{rule.path}: {rule.note}") not in self.noted
                ]
                self.noted.update(fresh)
                if not fresh:
                    return _NOTHING
                self.add(Block(key, "notice", turn, text="\n".join(fresh), level="warning"))
            case events.ErrorRaised() if self._is_told(event.message):
                return _NOTHING
            case events.ErrorRaised():
                self.add(Block(key, "error_raised", turn, text=event.message, hint=event.hint, title=event.code))
                return fold_refused(self, event)
            case events.ContextCompacted():
                text = f"history compacted: {event.before_tokens:,} to {event.after_tokens:,} tokens"
                self.context_used = event.after_tokens
                self.add(Block(key, "notice", turn, text=text, level="info"))
            case _:
                return _NOTHING
        return _topics("blocks", "status")
