"""Branches of the conversation: the position of each checkpoint, and what was left by a rewind.

Nothing is forgotten: a checkpoint on a branch that was left brings it back. Conversations are branches of
a tree whose nodes are records of the log; a rewind continues from another node. Messages on branches that
were left are not held in memory, but read again from the log when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.errors import StateError
from core.protocol import events as ev
from core.protocol.documents import Todo
from core.protocol.messages import Message
from core.state.turns import strip_reasoning

if TYPE_CHECKING:
    from core.state.fold import SessionState

# The records with these numbers, in this order.
Recall = Callable[[Sequence[int]], Iterable[ev.Envelope]]


def refuse_recall(wanted: Sequence[int]) -> Iterable[ev.Envelope]:
    """Refuse to read records: the state is not made from a log. Raises `StateError`."""
    if wanted:
        raise StateError("there is no log to go back in.")
    return ()


@dataclass(slots=True)
class Branch:
    """The path from the root (0) to `tip`, in the tree that all records of a kind make by their `parents`."""

    tip: int = 0
    parents: dict[int, int] = field(default_factory=dict)

    def add(self, record: int) -> None:
        """Append a record after the tip."""
        self.parents[record] = self.tip
        self.tip = record

    def move_to(self, record: int) -> None:
        """Continue from this record."""
        self.tip = record

    def list_records(self) -> list[int]:
        """Return all records but the root, in order."""
        found, record = list[int](), self.tip
        while record:
            found.append(record)
            record = self.parents[record]
        return found[::-1]

    def has_record(self, record: int) -> bool:
        """True if this record is on the branch, or is the root."""
        at = self.tip
        while at > record:  # a record is younger than its parent
            at = self.parents[at]
        return at == record


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationCheckpoint:
    """A checkpoint in the conversation: number of `messages` in the history, the records of the last message and
    the last turn, and the verdicts that the model knew. `questions` were open, or their answers unreported.
    `at` in ms."""

    id: str
    seq: int
    at: int
    prompt: str
    before: str
    generated: bool
    messages: int
    last_message: int
    last_turn: int
    todos: tuple[Todo, ...]
    plan_path: str
    reported_verdicts: tuple[str, ...]
    questions: tuple[ev.QuestionAsked, ...]


def add_checkpoint(state: SessionState, envelope: ev.Envelope, event: ev.CheckpointCreated) -> None:
    state.checkpoints[event.id] = ConversationCheckpoint(
        id=event.id,
        seq=event.seq,
        at=envelope.at,
        prompt=event.prompt,
        before=event.before,
        generated=event.generated,
        messages=len(state.messages),
        last_message=state.message_branch.tip,
        last_turn=state.turn_branch.tip,
        todos=state.todos,
        plan_path=state.todos_plan_path,
        reported_verdicts=tuple(state.reported_verdicts),
        questions=(*(each.asked for each in state.unreported_answers.values()), *state.questions.values()),
    )


def rewind_conversation(state: SessionState, _: ev.Envelope, event: ev.ConversationRewound) -> None:
    """Take the conversation back to a checkpoint: verdicts reported after it are unreported again, and its
    questions are open again."""
    mark = state.checkpoints.get(event.checkpoint)
    if mark is None:
        return
    state.message_branch.move_to(mark.last_message)
    state.messages[:] = _read_messages(state.recall(state.message_branch.list_records()))
    state.turn_branch.move_to(mark.last_turn)
    known = state.left_turns | {turn.seq: turn for turn in state.turns}
    state.turns[:] = [known.pop(record) for record in state.turn_branch.list_records()]
    state.left_turns = known
    state.unreported_answers.clear()
    state.questions = {each.id: each for each in mark.questions}
    for each in [each for each in state.reported_verdicts if each not in mark.reported_verdicts]:
        state.unreported_by_id[each] = state.reported_verdicts.pop(each)


def _read_messages(records: Iterable[ev.Envelope]) -> list[Message]:
    found = list[Message]()
    for record in records:
        match record.event:
            case ev.MessageAppended(message=message):
                found.append(message)
            case ev.ContextCompacted(messages=messages):
                found += messages
            case ev.ReasoningDropped():
                found[:] = strip_reasoning(found)
            case _:
                raise StateError(f"record {record.seq} of the session log is no message.")
    return found


def is_checkpoint_left(state: SessionState, mark: ConversationCheckpoint) -> bool:
    """True if the conversation was taken back behind a checkpoint."""
    return not state.turn_branch.has_record(mark.last_turn)
