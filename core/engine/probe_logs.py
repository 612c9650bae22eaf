"""The log of a debug run, filtered, and its comparison with another run; both limited to what a screen can use."""

from __future__ import annotations

from core.debug.probe_records import decode_records
from core.debug.run_comparison import compare_runs, filter_records, narrow_place
from core.engine.session.session import Session
from core.errors import CommandRejected
from core.protocol import queries as q
from core.protocol.debug import ProbeRecord

MAX_RECORDS = 2_000  # records of a run
MAX_PLACES, MAX_SIDE = 500, 40  # places, and records of each side of one


def load_probe_log(runtime: Session, query: q.ProbeLogQuery) -> q.ProbeLogAnswer:
    """Raises `CommandRejected` for an unknown run, `StateError` for a log that can't be read."""
    records = _load_records(runtime, query, query.run)
    other = query.compare_with
    places = compare_runs(_load_records(runtime, query, other), records)[:MAX_PLACES] if other else ()
    return q.ProbeLogAnswer(
        run=query.run,
        total=len(records),
        records=records[:MAX_RECORDS],
        compare_with=other,
        places=tuple(narrow_place(place, MAX_SIDE) for place in places),
    )


def _load_records(runtime: Session, query: q.ProbeLogQuery, run: str) -> tuple[ProbeRecord, ...]:
    known = runtime.state.debug.runs.get(run)
    if known is None:
        raise CommandRejected(f"there is no run {run!r}.", code="run_unknown")
    records = decode_records(runtime.shadow.blobs.get(known.log)) if known.log else ()
    return filter_records(records, hypothesis=query.hypothesis, words=query.words.split())
