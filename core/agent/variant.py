"""Which prompts a session has: the whole ones, or for a model with a small window short ones with few tools.

It is chosen once for each model of a session and kept beside the log: what is known of a window may change later, and
the bytes that every request begins with must not.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from core.agent.compaction import window_of
from core.agent.prefix import keep
from core.agent.session import SessionContext

SHORT_BELOW = 16_000  # tokens of a window
FILE = "prefix-short-for.json"


def is_short(session: SessionContext) -> bool:
    """Whether the session's model has the short prompts."""
    if session.short is None:
        session.short = _kept(session)
    model = session.route.id
    if model not in session.short:
        session.short[model] = 0 < window_of(session) < SHORT_BELOW
        keep(session.directory, FILE, msgspec.json.encode(session.short))
    return session.short[model]


def _kept(session: SessionContext) -> dict[str, bool]:
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode((session.directory / FILE).read_bytes(), type=dict[str, bool])
    return {}
