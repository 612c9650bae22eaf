"""What it takes to accept a bulk once more: what was accepted stays beside the layers when that is taken back, for as
long as a checkpoint names the verdict."""

from __future__ import annotations

from pathlib import Path

from core.errors import StateError
from core.ids import new_id
from core.shadow.bulk_notes import Decided, Notes
from core.shadow.frozen import link_tree
from core.shadow.layers import Kept, Layers
from core.shadow.review import ReviewState
from core.workspace.removing import remove


class Again:
    """The accepted bulks of one session."""

    def __init__(self, layers: Layers, notes: Notes, state: ReviewState) -> None:
        self._layers = layers
        self._notes = notes
        self._state = state

    def layer_of(self, verdict_id: str) -> str:
        """The name of a layer for what goes back: free, and the same one after a crash."""
        name, frozen = f"layer-of-{verdict_id}", self._layers.frozen.layers
        while name in frozen:
            name += "-"
        return name

    def named(self) -> list[str]:
        """The directories, beside the layers, that are still needed."""
        standing = [each.id for each in self._state.verdicts if each.bulk]
        return [*standing, *(self._place(each).name for each in self._pointed_at())]

    def _pointed_at(self) -> set[str]:
        return {each.id for point in self._state.points.values() for each in point.verdicts if each.bulk}

    def _place(self, verdict_id: str) -> Path:
        return self._layers.place / f"again-{verdict_id}"

    def keep(self, decided: Decided) -> None:
        """Before what was decided goes back into the layers. `StateError`."""
        source = self._notes.home(decided) / "upper"
        if decided.verdict.id not in self._pointed_at() or not source.is_dir():
            return
        place = self._place(decided.verdict.id)
        try:
            remove(place)
            place.mkdir(mode=0o700)
            link_tree(source, place / "upper")
            self._notes.keep(decided, place)
        except OSError as error:
            raise StateError(f"What was accepted can't be kept in {place}: {error.strerror}.") from error

    def lay_out(self, verdict_id: str) -> bool:
        """Let the kept layers be what was accepted, and nothing else. False: it is not there any more."""
        place = self._place(verdict_id)
        decided = self._notes.read(place.name)
        if decided is None:
            return False
        layer = new_id("layer")
        try:
            (self._layers.place / layer).mkdir(mode=0o700)
            link_tree(place / "upper", self._layers.upper(layer))
        except OSError as error:
            raise StateError(f"{decided.verdict.path} can't be laid out: {error.strerror}.") from error
        gone = self._layers.kept.gone
        self._layers.switch(Kept(layers=(layer,), tops=decided.tops, bases=decided.bases, gone=gone))
        return True
