"""The log of a run as a screen asks for it, and two of them side by side."""

from __future__ import annotations

from core.debug.comparing import compared
from core.debug.records import stored
from core.engine.runtime import SessionRuntime
from core.errors import CommandRejected
from core.protocol import queries as q
from core.protocol.debug import ProbeRecord


def probe_log(runtime: SessionRuntime, query: q.ProbeLogQuery) -> q.ProbeLog:
    """Raises `CommandRejected` for a run that there is not, `StateError` for a log that can't be read."""
    records = _records(runtime, query.run)
    other = query.compare_with
    places = compared(_records(runtime, other), records) if other else ()
    return q.ProbeLog(run=query.run, records=records, compare_with=other, places=places)


def _records(runtime: SessionRuntime, run: str) -> tuple[ProbeRecord, ...]:
    known = runtime.state.debug.runs.get(run)
    if known is None:
        raise CommandRejected(f"there is no run {run!r}.", code="run_unknown")
    return stored(runtime.shadow.blobs.get(known.log)) if known.log else ()
