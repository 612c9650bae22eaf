"""Making a state of git ready to be taken over, before its verdict: that runs git many times, and changes nothing else.

So it may be done in a thread, while the session goes on. What it was made from is compared when the verdict is given:
if that is not the same any more, it is made once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from core.protocol.review import Change, VerdictRecord
from core.shadow.bulk_notes import Decided, Notes
from core.shadow.gitstate.state import GitState
from core.shadow.layers import Kept, Layers, Top
from core.shadow.review import ReviewState
from core.workspace.removing import remove_tree


class Moment(Struct, frozen=True):
    """What the outcome depends on, but for the project."""

    kept: Kept
    changes: Mapping[str, Change]
    verdicts: tuple[VerdictRecord, ...]


class Ready(Struct, frozen=True):
    """`name`: the id that the verdict is to have; `notes`: what is not as commands left it."""

    name: str
    moment: Moment
    notes: tuple[str, ...]


class Beforehand:
    """Of one session."""

    def __init__(self, layers: Layers, notes: Notes, git: GitState, state: ReviewState) -> None:
        self._layers = layers
        self._notes = notes
        self._git = git
        self._state = state

    def made(self, tops: Mapping[str, Top], name: str) -> Ready | None:
        """The layer of what is taken over, in the directory of the verdict `name`; None: it is no state of git.
        `ReviewConflict`: it may not be taken over, OSError; then nothing is left."""
        gits = _gits(tops)
        if not gits:
            return None
        moment = self._moment()
        home = self._layers.hold(name)
        try:
            (home / "prepared").mkdir(mode=0o700)
            notes = tuple(note for path in gits for note in self._git.prepare(path, home / "prepared"))
        except BaseException:
            self._layers.close(name, keep=False)
            raise
        self._layers.close(name, keep=True)
        return Ready(name, moment, notes)

    def into(self, decided: Decided, ready: Ready | None) -> Decided:
        """With what was made ready, or is now, if something has changed since. Raises as `made`."""
        if not _gits(decided.tops):
            return decided
        if ready is None or ready.moment != self._moment():
            self.drop(decided.verdict.id)
            ready = self.made(decided.tops, decided.verdict.id)
        assert ready is not None
        excerpt = "; ".join([decided.verdict.excerpt, *ready.notes])
        return replace(decided, verdict=replace(decided.verdict, excerpt=excerpt))

    def drop(self, name: str) -> None:
        """It is not needed any more."""
        with suppress(OSError):
            remove_tree(self._layers.place / name)

    def _moment(self) -> Moment:
        return Moment(self._layers.kept, dict(self._state.changes), tuple(self._state.verdicts))


def _gits(tops: Mapping[str, Top]) -> list[str]:
    return [path for path, top in tops.items() if top.kind == "git"]
