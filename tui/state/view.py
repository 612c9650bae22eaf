"""The screen's state: the session's state and display state, which `fold` updates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from core.protocol import events
from core.protocol.debug import ProbeRecord
from core.protocol.documents import Plan, Todo
from core.protocol.events import BackgroundAgentInfo, IndexStatus
from core.protocol.renames import list_changes
from core.protocol.review import Bulk, Comment, Origin, VerdictRecord
from core.state.asides import AsideState
from core.state.debugging import DebugState
from core.state.receipt import build_receipt
from core.state.session import SessionState
from tui.block import TranscriptBlock
from tui.state.transcript import TranscriptState

MAX_LIVE_RECORDS: Final = 500  # of a running one


class PendingRetry(NamedTuple):
    """A delayed retry of a model call: delay in ms, the seq of the event, and a short reason."""

    delay_ms: int
    seq: int
    reason: str


class Resumption(NamedTuple):
    """The latest resumption of the session: its time, and the time since the event before it, both in ms."""

    at: int
    gap: int


class ModelWait(NamedTuple):
    """The wait for the first words of a model call: the seq of its start, and the tokens of the prompt that the server
    has read, of so many (0 = not told)."""

    seq: int
    processed: int = 0
    total: int = 0


class QuestionLocation(NamedTuple):
    """The turn that a question belongs to, and the block that shows it."""

    turn: str
    block: str


NOTICE_KINDS: Final = frozenset({"notice", "error", "error_raised"})


@dataclass(slots=True)
class DebugView(DebugState):
    """The debugging state of the board. `live_records`: the log of the current run.

    `probe_check`: the search for leftover probes after their removal. `question`: the question of a card. `can_probe`:
    this machine has a sandbox for runs, so probes are possible.
    """

    live_records: list[ProbeRecord] = field(default_factory=list)
    probe_check: events.ProbesChecked | None = None
    question: events.QuestionAsked | None = None
    can_probe: bool = True

    def end(self) -> None:
        self.live_records, self.question = [], None


@dataclass(slots=True)
class SteeringQueue:
    """`returned`: texts to offer in the prompt, with their seqs; `seqs` of the queued ones, `labels` of requested
    attachments, by request. `dropped`: ids that the user discarded."""

    returned: list[tuple[str, int]] = field(default_factory=list)
    seqs: dict[str, int] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)

    def take_returned(self) -> str:
        """Return and clear the returned texts, joined to one."""
        text = "\n".join(text for text, _ in self.returned)
        self.returned.clear()
        return text


@dataclass(slots=True)
class CommitProgress:
    """The progress of a commit for its dialog: new output of hooks, and results that were not displayed."""

    output: str = ""
    ends: list[events.AnyEvent] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ViewState(SessionState):
    """The session's state with display state. `retry`: the delayed retry of a model call; `wait`: for the first words
    of one; `is_pending_kept`: the pending changes of a private session were stored; `turn_numbers` by id, and
    `turn_prompts`, also of abandoned branches; `review_verdicts`: ids of verdicts since the review was last empty;
    `refusals`: failed verdicts by path, until the review displays them; `refused_edits`: ids of accepted edits that
    can't be committed; `index`: its progress; `client_count`: number of clients of the session; `background`:
    background agents; `commits`: the current commit; `stale_receipts`: turns whose receipt is outdated;
    `verifying`: the check that is being repeated, "" = none, and `verifying_line` its last output; `proving`: the
    proof that runs, None = none does; `loss`: why the session is no longer stored, "" = it is; `asides`: side
    questions by id, in order; `resumed`: None = it was not resumed; `job_ends`: the background commands that ended
    since the last prompt, by id."""

    transcript: TranscriptState = field(default_factory=TranscriptState)
    steering: SteeringQueue = field(default_factory=SteeringQueue)
    debug: DebugView = field(default_factory=DebugView)
    is_pending_kept: bool = False
    retry: PendingRetry | None = None
    wait: ModelWait | None = None
    turn_numbers: dict[str, int] = field(default_factory=dict)
    turn_prompts: dict[str, str] = field(default_factory=dict)
    review_verdicts: set[str] = field(default_factory=set)
    refusals: dict[str, str] = field(default_factory=dict)
    refused_edits: set[str] = field(default_factory=set)
    question_places: dict[str, QuestionLocation] = field(default_factory=dict)
    touched_paths: set[str] = field(default_factory=set)
    is_any_touched: bool = False  # files changed, too many to name
    suggestion: events.PromptSuggested | None = None
    index: IndexStatus = field(default_factory=IndexStatus)
    client_count: int = 1
    background: tuple[BackgroundAgentInfo, ...] = ()
    commits: CommitProgress = field(default_factory=CommitProgress)
    stale_receipts: set[str] = field(default_factory=set)
    verifying: str = ""
    verifying_line: str = ""
    proving: events.ProofProgressed | None = None
    loss: str = ""
    asides: dict[str, AsideState] = field(default_factory=dict)
    resumed: Resumption | None = None
    job_ends: dict[str, events.JobEnded] = field(default_factory=dict)

    def show_verification(self, _: events.Envelope, event: events.VerificationProgressed) -> None:
        """Update the progress of a repeated check."""
        if event.command != self.verifying:
            self.verifying, self.verifying_line = event.command, ""
        lines = [line for line in event.text.splitlines() if line.strip()]
        self.verifying_line = lines[-1] if lines else self.verifying_line

    def show_proof_progress(self, _: events.Envelope, event: events.ProofProgressed) -> None:
        """Update the progress of a proof."""
        self.proving = event if event.command else None

    @property
    def blocks(self) -> list[TranscriptBlock]:
        return self.transcript.blocks

    @property
    def has_begun(self) -> bool:
        """True if the conversation has anything but notices."""
        return any(block.kind not in NOTICE_KINDS for block in self.blocks)

    @property
    def start_notices(self) -> list[str]:
        """Notices before the conversation."""
        return [] if self.has_begun else [f"{block.text} {block.hint}".strip() for block in self.blocks]

    @property
    def is_running(self) -> bool:
        return self.current_turn is not None

    @property
    def shown_model(self) -> str:
        """The model that answers: the turn's while one runs."""
        route, turn = self.model_choices.route, self.current_turn
        return route.model if route is not None else (turn.model if turn is not None else "") or self.model

    @property
    def takes_commands(self) -> bool:
        """True if input is a command: under the human policy without a turn to steer."""
        return self.policy.policy == "human" and not self.is_running

    @property
    def is_running_command(self) -> bool:
        return bool(self.verifying) or any(call.startswith("user_") for call in self.transcript.calls)

    @property
    def awaited_question(self) -> events.QuestionAsked | None:
        """The question that the running turn waits for."""
        turn = self.current_turn
        questions = (
            question
            for question in self.questions.values()
            if turn and self.get_question_location(question.id).turn == turn.id
        )
        return next(questions, None)

    @property
    def open_question(self) -> events.QuestionAsked | None:
        """The question to answer: that of the running turn, else the last open one."""
        return self.awaited_question or next(reversed(self.questions.values()), None)

    @property
    def trust_question(self) -> events.TrustStated | None:
        """The open question whether to trust the project; None = it is answered."""
        return self.trust if self.trust is not None and self.trust.state == "asked" else None

    @property
    def bulks(self) -> tuple[Bulk, ...]:
        """Bulks with anything but caches, without files that are judged one by one."""
        candidates = [bulk for bulk in self.review.bulks if not bulk.is_cache]
        return tuple(bulk for bulk in candidates if bulk.files or bulk.deleted or bulk.needs_verdict or bulk.conflict)

    @property
    def comments(self) -> dict[tuple[str, str], Comment]:
        """The unsent comments, by path and hunk."""
        return self.review.comments

    @property
    def pending_hunk_count(self) -> int:
        """Number of hunks and bulks that wait for a verdict."""
        hunks = sum(max(len(change.hunks), 1) for change in list_changes(self.changes))
        return hunks + sum(bulk.needs_verdict for bulk in self.bulks)

    @property
    def judged(self) -> tuple[VerdictRecord, ...]:
        """The verdicts of this review that were not undone, in order."""
        return tuple(
            verdict for verdict in self.review.verdicts if verdict.id in self.review_verdicts and not verdict.settled
        )

    @property
    def can_commit(self) -> bool:
        """True if something that was accepted in this session is in no commit yet, as far as is known."""
        return bool(self.branch and self._list_committable() - self.refused_edits)

    def _list_committable(self) -> set[str]:
        verdicts = (verdict for verdict in self.review.verdicts if verdict.verdict == "accept" and not verdict.settled)
        changed_ids = (
            verdict.id for verdict in verdicts if verdict.bulk is None and verdict.base_before != verdict.base_after
        )
        return set(changed_ids) - self.review.committed

    def note_refused_commit(self) -> None:
        """Stop offering a commit of the changes accepted so far, after a commit found nothing to commit."""
        self.refused_edits = self._list_committable()

    @property
    def current_plan(self) -> Plan | None:
        """The plan that was created or changed last."""
        return self.plans.get(self.current_plan_path)

    @property
    def plan_todos(self) -> tuple[Todo, ...]:
        """The present todos of the current plan; those of the session if they belong to no plan."""
        plan = self.current_plan
        return self.todos if plan is None or self.todos_plan_path in {"", plan.path} else plan.todos

    def note_origin(self, origin: Origin | None) -> None:
        """Note that the receipt of the event's turn has changed."""
        if origin is not None and origin.turn:
            self.stale_receipts.add(origin.turn)

    def update_receipts(self) -> None:
        """Update the receipts of turns whose files or verdicts have changed since."""
        turns = {turn.id: turn for turn in self.turns if turn.id in self.stale_receipts and turn.reason}
        for block in self.blocks if turns else ():
            if block.kind == "turn_end" and (turn := turns.get(block.turn)) is not None:
                receipt = build_receipt(self, turn)
                block.revision += receipt != block.receipt
                block.receipt = receipt
        self.stale_receipts.clear()

    def list_prompts_after(self, seq: int) -> list[str]:
        """Return the user's prompts and messages after that event."""
        prompt_blocks = (block for block in self.blocks if block.kind in {"prompt", "steer"})
        sent_texts = [block.text for block in prompt_blocks if int(block.key.split(":")[1]) > seq]
        queued_texts = [text for key, text in self.pending_steers.items() if self.steering.seqs.get(key, 0) > seq]
        return [*sent_texts, *queued_texts, *(text for text, steer_seq in self.steering.returned if steer_seq > seq)]

    def get_question_location(self, question: str) -> QuestionLocation:
        """Return the location of a question by id; an empty one if it is unknown."""
        return self.question_places.get(question, QuestionLocation("", ""))
