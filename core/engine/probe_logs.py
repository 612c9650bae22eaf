"""The log of a run as a screen asks for it, and two of them side by side: no more of either than it can use."""

from __future__ import annotations

from core.debug.comparing import compared, narrowed, picked
from core.debug.records import stored
from core.engine.runtime import SessionRuntime
from core.errors import CommandRejected
from core.protocol import queries as q
from core.protocol.debug import ProbeRecord

MOST = 2_000  # records of a run
PLACES, SIDE = 500, 40  # places, and records of each side of one


def probe_log(runtime: SessionRuntime, query: q.ProbeLogQuery) -> q.ProbeLog:
    """Raises `CommandRejected` for a run that there is not, `StateError` for a log that can't be read."""
    records = _records(runtime, query, query.run)
    other = query.compare_with
    places = compared(_records(runtime, query, other), records)[:PLACES] if other else ()
    return q.ProbeLog(
        run=query.run,
        total=len(records),
        records=records[:MOST],
        compare_with=other,
        places=tuple(narrowed(place, SIDE) for place in places),
    )


def _records(runtime: SessionRuntime, query: q.ProbeLogQuery, run: str) -> tuple[ProbeRecord, ...]:
    known = runtime.state.debug.runs.get(run)
    if known is None:
        raise CommandRejected(f"there is no run {run!r}.", code="run_unknown")
    records = stored(runtime.shadow.blobs.get(known.log)) if known.log else ()
    return picked(records, hypothesis=query.hypothesis, words=query.words.split())
