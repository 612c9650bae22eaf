"""Privacy: nothing of what is said and done is on a disk once the program has ended.

The sessions of a private engine live in memory (`core/sessions/private.py`), and so do the temporary files of its
process; faults are told and not kept, and what the user allows for good holds until the end. What still waits for a
verdict then is kept without the conversation if the user says so, else it goes with the rest.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from core import faults
from core.config import Settings
from core.engine.live import LiveSession
from core.engine.runtime import SessionRuntime, Surroundings
from core.errors import AgentTuiError, CommandRejected
from core.protocol.events import Notice, SessionStarted
from core.protocol.review import Change
from core.sessions.private import PrivatePlace, abandoned, place_of
from core.sessions.records import decode
from core.sessions.store import SessionDirectory, SessionStore
from core.shadow.places import forget_place
from core.workspace import Workspace
from core.workspace.removing import remove_tree

TITLE: Final = "Changes from a private session"
NOTHING_KEPT: Final = "privacy is on, and sessions that are kept are not gone on with."
WHAT_ELSE: Final = "`agent-tui review` opens what waits for a review; --no-private goes on with a kept session."
ON_DISK: Final = "There is no place in memory for this private session: it lies on the disk until the program ends."


class Privacy:
    """That of one engine. `wanted`: what the command line says, None = the configuration decides."""

    def __init__(self, wanted: bool | None) -> None:
        self._wanted = wanted
        self._place: PrivatePlace | None = None

    @property
    def path(self) -> Path | None:
        """Where everything of it lies; None: privacy is off."""
        return self._place.path if self._place is not None else None

    @property
    def on(self) -> bool:
        return self._place is not None

    def store(self, workspace: Path, settings: Settings) -> SessionStore:
        """Where the sessions of a workspace are. Raises `StateError`."""
        if self._place is None and (settings.privacy if self._wanted is None else self._wanted):
            self._place = PrivatePlace.make()
            faults.keeps(False)
            tempfile.tempdir = str(self._place.path)
        return SessionStore(workspace, home=self.path)

    def notices(self) -> list[str]:
        """What the user has to know of where it is kept."""
        return [ON_DISK] if self._place is not None and not self._place.in_memory else []

    def check_resumed(self, store: SessionStore, session: str) -> None:
        """Raises `CommandRejected` for a session that lies on the disk."""
        if self.on and not (store.holds(session) if session else store.latest()):
            raise CommandRejected(NOTHING_KEPT, hint=WHAT_ELSE, code="private")

    def end(self) -> None:
        """Nothing is left. Safe to call twice."""
        place, self._place = self._place, None
        if place is not None:
            tempfile.tempdir = None
            faults.keeps(True)
            _forget_layers(place.path)
            place.remove()


def _forget_layers(place: Path) -> None:
    for layers in place.glob("workspaces/*/sessions/**/layers"):
        forget_place(layers)


def sweep(around: Surroundings) -> None:
    """Remove what private engines left that were killed. What one of them was just writing to files of the user's is
    first finished or taken back."""
    for place in abandoned():
        for journal in place.glob("workspaces/*/sessions/*/journal.jsonl"):
            with suppress(AgentTuiError, OSError, StopIteration):
                if journal.stat().st_size:
                    _recover(journal.parent, around)
        _forget_layers(place)
        with suppress(OSError):
            remove_tree(place)


def _recover(session: Path, around: Surroundings) -> None:
    directory = SessionDirectory(session)
    with directory.log.open("rb") as file:
        first = decode(file.readline().rstrip(b"\n"))
    started = first.event if first is not None else None
    if not isinstance(started, SessionStarted):
        return
    there = dataclasses.replace(around, workspace=Workspace(Path(started.workspace)), trusting=None)
    SessionRuntime.resume(directory, there).discard()


async def keep_pending(
    sessions: Mapping[str, LiveSession], session: str, store: SessionStore, around: Surroundings
) -> SessionRuntime:
    """A session on the disk that has what waits in a private one, open or not, and nothing else of it. Raises
    `CommandRejected`, `StateError`."""
    live = sessions.get(session)
    if live is None:
        closed = SessionRuntime.resume(store.open(session), around)
        try:
            return _kept(closed, around)
        finally:
            closed.discard()
    await live.settled()
    await live.turns.stop()
    return _kept(live.runtime, around)


def _kept(source: SessionRuntime, around: Surroundings) -> SessionRuntime:
    if place_of(source.directory.path) is None:
        raise CommandRejected("this session is not private: it is kept as it is.", code="not_private")
    if not (waiting := source.shadow.changes()):
        raise CommandRejected(
            "nothing waits for a review that could be kept without its session.",
            hint="Links and what is decided as a whole go with it: accept them, or drop them.",
            code="nothing_pending",
        )
    directory = SessionStore(around.workspace.root).create()
    first = SessionStarted(workspace=str(around.workspace.root), mode="agent", model="", title=TITLE)
    kept = SessionRuntime.create(directory, around, first)
    left = [change.path for change in waiting if not _carried(source, change, kept)]
    left += [bulk.root for bulk in source.review.bulks if bulk.waits]
    if left:
        message = f"Not kept from the private session: {', '.join(left)}."
        kept.emit(Notice(level="warning", message=message, hint="Links and what is decided as a whole went with it."))
    return kept


def _carried(source: SessionRuntime, change: Change, kept: SessionRuntime) -> bool:
    """Whether a change is pending in the other session now, by its content alone."""
    if change.pending.kind == "symlink":
        return False
    try:
        if change.pending.kind == "absent":
            kept.shadow.delete(change.path)
        else:
            kept.shadow.edit(change.path, source.shadow.blobs.get(change.pending.blob), None, change.pending.mode)
    except AgentTuiError:
        return False
    return True
