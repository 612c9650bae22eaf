"""The part of the fold that keeps what the user said to a running turn, until a model was sent it or they have it back.

Of every such message one of the two is in the log in the end. A log that older programs wrote gives these messages no
id, and says nothing of their end: they wait for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from core.protocol import events as ev

if TYPE_CHECKING:
    from core.sessions.fold import SessionState


def steered(state: SessionState, _: ev.Envelope, event: ev.TurnSteered) -> None:
    if event.id:
        state.steers[event.id] = event.text


def delivered(state: SessionState, _: ev.Envelope, event: ev.SteerDelivered) -> None:
    settled(state, event.ids)


def returned(state: SessionState, _: ev.Envelope, event: ev.SteerReturned) -> None:
    settled(state, (event.id,))


def kept(state: SessionState, _: ev.Envelope, event: ev.DraftKept) -> None:
    state.draft = event.text


def settled(state: SessionState, ids: Iterable[str]) -> None:
    """These wait no longer."""
    for each in ids:
        state.steers.pop(each, None)
