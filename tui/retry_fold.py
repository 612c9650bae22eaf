"""The screen's fold of a model call that is tried again: one line for a step, which the next attempt takes over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.protocol import events

if TYPE_CHECKING:
    from tui.state import ViewState


def fold_retried(state: ViewState, event: events.StepRetried, envelope: events.Envelope) -> None:
    """What the attempt had brought is void; the line about it says what is waited for now."""
    from tui.state import Block

    key = f"retry:{envelope.turn}:{event.step}"
    for void in (*event.void_documents, key):
        if void in state.by_key:
            state.drop(state.by_key[void])
    hint = f"attempt {event.attempt}{f' in {event.delay_ms / 1000:.0f} s' if event.delay_ms else ''}"
    state.add(Block(key, "notice", envelope.turn, text=event.message, hint=hint, level="warning"))
    state.waiting = (event.delay_ms, envelope.seq)
