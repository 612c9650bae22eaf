"""What has to hold when the program has ended: its log replays, nothing of it is left, no secret was written down."""

from __future__ import annotations

from pathlib import Path

import psutil

from core.engine.session.session import Session
from core.state.fold import apply_event
from tests.fuzz.project import AWAITED, SECRETS
from tests.support.folded import as_data, fold_events
from tests.support.session_log import scan

LEFTOVERS = (".tmp", ".part")


def faults_of_log(runtime: Session) -> list[str]:
    """Nothing = what the session was is what its log says, and any beginning of it is a session, too."""
    if not runtime.directory.log_path.exists():
        return []
    log_scan = scan(runtime.directory.log_path)
    if not log_scan.whole:
        return ["the log is not whole"]
    envelopes = log_scan.envelopes
    if as_data(fold_events(envelopes)) != as_data(runtime.state):
        return ["the log folds to another state than the live one"]
    for count in {len(envelopes) // 3, len(envelopes) // 2}:
        state = fold_events(envelopes[:count])
        state.recall = lambda numbers: [envelopes[seq - 1] for seq in numbers]
        for envelope in envelopes[count:]:
            apply_event(state, envelope)
        if as_data(state) != as_data(runtime.state):
            return [f"the log after {count} events, carried on, is another state"]
    return []


def faults_of_place(place: Path, exposed: set[str]) -> list[str]:
    """`place` is all that the sequence may have touched; `exposed`: secrets that are none any more."""
    faults = [f"left in the directory for temporary files: {path.name}" for path in (place / "tmp").iterdir()]
    state = place / "state"
    faults += [f"left: {path.relative_to(place)}" for path in state.rglob("*") if path.suffix in LEFTOVERS]
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    faults += [f"left mounted: {line}" for line in mounts.splitlines() if str(place) in line]
    outside = [path for path in place.iterdir() if path.name not in {"project", "home", "state", "tmp"}]
    faults += [f"written outside of the project: {path.name}" for path in outside]
    home = {path.name for path in (place / "home").iterdir()} - {".ssh", ".config", ".cache", ".local", ".run"}
    faults += [f"written in the home: {name}" for name in home]
    for process in psutil.Process().children(recursive=True):
        try:
            if process.status() != psutil.STATUS_ZOMBIE and "sleep" in process.cmdline()[:1]:
                faults.append(f"still runs: {process.cmdline()}")
        except psutil.Error:
            continue
    return faults + faults_of_secrets(state, exposed)


def faults_of_secrets(state: Path, exposed: set[str]) -> list[str]:
    faults: list[str] = []
    keys = [(name, key.encode()) for name, key in looked_for() if name not in exposed]
    for path in state.rglob("*"):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            faults += [f"{name} in {path.relative_to(state)}" for name, key in keys if key in data]
    return faults


def looked_for() -> list[tuple[str, str]]:
    return [(name, key) for name, key in SECRETS.items() if name not in AWAITED]
