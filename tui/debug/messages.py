"""Messages of the debug board to the main screen, whose handlers are typed without a widget being imported."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from core.protocol.documents import QuestionAnswer


@dataclass
class CardAnswered(Message, namespace="debug_board"):
    """The answer to what a card asked."""

    id: str
    answers: tuple[QuestionAnswer, ...]
