"""The part of the fold that goes back: where each checkpoint stands in the conversation, and what was left behind it.

What is left is not forgotten: a checkpoint on it brings it back. Conversations are branches of a tree whose nodes are
records of the log; going back means to go on from another node. So nothing of what was left is held in memory: its
records are in the log, and are read again when they are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.errors import StateError
from core.protocol import events as ev
from core.protocol.documents import Todo
from core.protocol.messages import Message
from core.sessions.turns import without_reasoning

if TYPE_CHECKING:
    from core.sessions.fold import SessionState

# The records with these numbers, in this order.
Recall = Callable[[Sequence[int]], Iterable[ev.Envelope]]


def nothing_to_recall(wanted: Sequence[int]) -> Iterable[ev.Envelope]:
    """For a state that is not made from a log: it can't go back."""
    if wanted:
        raise StateError("there is no log to go back in.")
    return ()


@dataclass(slots=True)
class Branch:
    """The way from the root (0) to `tip`, in the tree that all records of a kind make by their `parents`."""

    tip: int = 0
    parents: dict[int, int] = field(default_factory=dict)

    def add(self, record: int) -> None:
        self.parents[record] = self.tip
        self.tip = record

    def go_to(self, record: int) -> None:
        self.tip = record

    def records(self) -> list[int]:
        """All but the root, in order."""
        found, record = list[int](), self.tip
        while record:
            found.append(record)
            record = self.parents[record]
        return found[::-1]

    def passes(self, record: int) -> bool:
        """Whether this record, or the root, is on it."""
        at = self.tip
        while at > record:  # a record is younger than its parent
            at = self.parents[at]
        return at == record


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A checkpoint in the conversation: how many `messages` the model had seen, the record of the last of them and that
    of the last turn, and which verdicts the model knew of. `questions` were open, or answered and the model did not
    know. `at` in ms."""

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
    told: tuple[str, ...]
    questions: tuple[ev.QuestionAsked, ...]


def marked(state: SessionState, envelope: ev.Envelope, event: ev.CheckpointCreated) -> None:
    state.marks[event.id] = Mark(
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
        plan_path=state.plan_path,
        told=tuple(state.reported),
        questions=(*(each.asked for each in state.untold_answers.values()), *state.questions.values()),
    )


def rewound(state: SessionState, _: ev.Envelope, event: ev.ConversationRewound) -> None:
    """What the model knew of verdicts goes with the messages that told it; what it asked then is open again."""
    mark = state.marks.get(event.checkpoint)
    if mark is None:
        return
    state.message_branch.go_to(mark.last_message)
    state.messages[:] = _messages(state.recall(state.message_branch.records()))
    state.turn_branch.go_to(mark.last_turn)
    known = state.left_turns | {turn.seq: turn for turn in state.turns}
    state.turns[:] = [known.pop(record) for record in state.turn_branch.records()]
    state.left_turns = known
    state.untold_answers.clear()
    state.questions = {each.id: each for each in mark.questions}
    for each in [each for each in state.reported if each not in mark.told]:
        state.unreported[each] = state.reported.pop(each)


def _messages(records: Iterable[ev.Envelope]) -> list[Message]:
    found = list[Message]()
    for record in records:
        match record.event:
            case ev.MessageAppended(message=message):
                found.append(message)
            case ev.ContextCompacted(messages=messages):
                found += messages
            case ev.ReasoningDropped():
                found[:] = without_reasoning(found)
            case _:
                raise StateError(f"record {record.seq} of the session log is no message.")
    return found


def is_left(state: SessionState, mark: Mark) -> bool:
    """Whether the conversation has been taken back behind a checkpoint."""
    return not state.turn_branch.passes(mark.last_turn)
