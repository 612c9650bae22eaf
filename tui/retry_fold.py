"""The screen's fold of a model call that is tried again: one line for a step, which the next attempt takes over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from core.protocol import events
from tui.block import TranscriptBlock

if TYPE_CHECKING:
    from tui.state import ViewState


REASONS: Final = {
    "rate_limited": "rate limit",
    "overloaded": "overloaded",
    "model_loading": "model is loading",
    "unreachable": "not reachable",
    "stalled": "silent",
    "stream_cut": "cut off",
    "server_failed": "server failed",
}


class PendingRetry(NamedTuple):
    """For how many ms a model call waits before it is tried again, the seq that said so, and why, in a word or two."""

    delay_ms: int
    seq: int
    reason: str


def fold_retried(state: ViewState, event: events.StepRetried, envelope: events.Envelope) -> None:
    """What the attempt had brought is void; the line about it says what is waited for now."""
    key = f"retry:{envelope.turn}:{event.step}"
    for void in (*event.void_documents, key):
        if void in state.blocks_by_key:
            state.drop_block(state.blocks_by_key[void])
    hint = f"Attempt {event.attempt} in {event.delay_ms / 1000:.1f} s." if event.delay_ms else "It is asked again."
    state.add_block(TranscriptBlock(key, "notice", envelope.turn, text=event.message, hint=hint, level="warning"))
    state.retry = PendingRetry(event.delay_ms, envelope.seq, REASONS.get(event.code, "failed"))
