"""What a log folds to, and a session's state as plain data, to compare it with what lives."""

from __future__ import annotations

from typing import Any

import msgspec

from core.protocol.events import Envelope
from core.state.fold import apply_event
from core.state.session import SessionState


def fold_events(envelopes: list[Envelope]) -> SessionState:
    """The state after `envelopes`."""
    records = {record.seq: record for record in envelopes}
    state = SessionState(recall=lambda numbers: [records[seq] for seq in numbers])
    for envelope in envelopes:
        apply_event(state, envelope)
    return state


def as_data(state: SessionState) -> dict[str, Any]:
    plain = {name: _ordered(getattr(state, name)) for name in _fields(state) - {"review", "turns", "recall"}}
    plain["turns"] = [{name: _ordered(getattr(turn, name)) for name in _fields(turn)} for turn in state.turns]
    plain["changes"], plain["verdicts"] = dict(state.changes), list(state.review.verdicts)
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(plain))
    return decoded


def _fields(record: Any) -> set[str]:
    return set(type(record).__slots__)


def _ordered(value: Any) -> Any:
    """Two equal sets may be walked in different orders, depending on how they grew."""
    return sorted(value) if isinstance(value, set | frozenset) else value
