"""A session's state as plain data, to compare what lives with what a log folds to."""

from __future__ import annotations

from typing import Any

import msgspec

from core.sessions.fold import SessionState


def as_data(state: SessionState) -> dict[str, Any]:
    plain = {name: getattr(state, name) for name in SessionState.__slots__ if name not in {"review", "turns", "recall"}}
    plain["turns"] = [{name: getattr(turn, name) for name in type(turn).__slots__} for turn in state.turns]
    plain["changes"], plain["verdicts"] = dict(state.changes), list(state.review.verdicts)
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(plain))
    return decoded
