"""The screen's fold of a plan's todos into its cards in the transcript: what is done is seen there, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from core.protocol.documents import PlanDocument, Todo

if TYPE_CHECKING:
    from tui.state import ViewState


def marked(state: ViewState, path: str, todos: Sequence[Todo]) -> tuple[Literal["blocks"], ...]:
    """Give every card of a plan the statuses that its todos have now; the topics that this touches."""
    status, changed = {todo.id: todo.status for todo in todos}, False
    for block in state.blocks if path else ():
        card = block.document
        if not isinstance(card, PlanDocument) or card.metadata.path != path:
            continue
        now = tuple(replace(todo, status=status.get(todo.id, todo.status)) for todo in card.metadata.todos)
        if now != card.metadata.todos:
            block.document = replace(card, metadata=replace(card.metadata, todos=now))
            block.revision += 1
            changed = True
    return ("blocks",) if changed else ()
