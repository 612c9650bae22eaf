"""Messages to a running turn in the session's state, until a model was sent them or the user has them back.

One of the two stands in the log in the end. Logs of older programs give these messages no id and do not
record their end: they are not waited for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from core.protocol import events as ev

if TYPE_CHECKING:
    from core.state.fold import SessionState


def add_steer(state: SessionState, _: ev.Envelope, event: ev.TurnSteered) -> None:
    if event.id:
        state.pending_steers[event.id] = event.text


def deliver_steers(state: SessionState, _: ev.Envelope, event: ev.SteerDelivered) -> None:
    drop_steers(state, event.ids)


def return_steer(state: SessionState, _: ev.Envelope, event: ev.SteerReturned) -> None:
    drop_steers(state, (event.id,))


def set_draft(state: SessionState, _: ev.Envelope, event: ev.DraftKept) -> None:
    state.draft = event.text


def drop_steers(state: SessionState, ids: Iterable[str]) -> None:
    """Remove messages that wait no longer."""
    for each in ids:
        state.pending_steers.pop(each, None)
