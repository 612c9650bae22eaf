"""The part of the fold that goes back: where each checkpoint stands in the conversation, and what was left behind it.

What is left is not forgotten: a rewind, as a compaction, begins another line, and a checkpoint on an older one brings
that back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.protocol import events as ev
from core.protocol.documents import Todo
from core.protocol.messages import Message

if TYPE_CHECKING:
    from core.sessions.fold import SessionState, TurnState


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A checkpoint in the conversation: how many `messages` and `turns` of the line number `line` came before it, and
    which verdicts the model knew of. `questions` were open, or answered and the model did not know. `at` in ms."""

    id: str
    seq: int
    at: int
    prompt: str
    before: str
    generated: bool
    line: int
    messages: int
    turns: int
    todos: tuple[Todo, ...]
    plan_path: str
    told: tuple[str, ...]
    questions: tuple[ev.QuestionAsked, ...]


@dataclass(slots=True)
class Line:
    """What the conversation was when another line began."""

    messages: list[Message]
    turns: list[TurnState]


def shelve(state: SessionState) -> None:
    """Begin another line."""
    state.lines.append(Line(list(state.messages), list(state.turns)))


def marked(state: SessionState, envelope: ev.Envelope, event: ev.CheckpointCreated) -> None:
    state.marks[event.id] = Mark(
        id=event.id,
        seq=event.seq,
        at=envelope.at,
        prompt=event.prompt,
        before=event.before,
        generated=event.generated,
        line=len(state.lines),
        messages=len(state.messages),
        turns=len(state.turns),
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
    shelve(state)
    line = state.lines[mark.line]
    state.messages[:] = line.messages[: mark.messages]
    state.turns[:] = line.turns[: mark.turns]
    state.untold_answers.clear()
    state.questions = {each.id: each for each in mark.questions}
    for each in [each for each in state.reported if each not in mark.told]:
        state.unreported[each] = state.reported.pop(each)


def is_left(state: SessionState, mark: Mark) -> bool:
    """Whether the conversation has been taken back behind a checkpoint."""
    line = state.lines[mark.line] if mark.line < len(state.lines) else None
    turns = line.turns if line is not None else state.turns
    return turns[: mark.turns] != state.turns[: mark.turns]
