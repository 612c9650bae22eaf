"""Messages of the bars that ask to the main screen, whose handlers are typed without a widget being imported."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from core.protocol.documents import QuestionAnswer
from core.protocol.events import ApprovalDecision


@dataclass
class DecisionMade(Message, namespace="approval_bar"):
    """The user's decision; `pattern` is the rule to save, "" = exactly this request."""

    id: str
    decision: ApprovalDecision
    pattern: str = ""


@dataclass
class PatternChanged(Message, namespace="approval_bar"):
    """The pattern in the input changed."""

    pattern: str
    command: str


@dataclass
class AnswersSubmitted(Message, namespace="question_bar"):
    """Every question of the bar, or the card of the debug board, has an answer; none: the user dismissed them."""

    id: str
    answers: tuple[QuestionAnswer, ...]


@dataclass
class TextRedirected(Message, namespace="question_bar"):
    """The text belongs into the prompt: a command, or several lines."""

    text: str


class FoldChanged(Message, namespace="question_bar"):
    """The bar folded to one line, or unfolded."""


class Postponed(Message, namespace="question_bar"):
    """The user returned to the prompt; the question stays open."""
