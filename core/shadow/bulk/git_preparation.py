"""Prepares the acceptance of a state of git before the verdict. It runs git many times and writes only its own layer.

So it can run in a thread while the session continues. The verdict compares the inputs of the preparation with their
present values, and repeats it if they have changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from core.filesystem.removal import remove_tree
from core.protocol.review import Change, VerdictRecord
from core.shadow.bulk.bulk_records import BulkDecision
from core.shadow.gitstate.git_state import GitState
from core.shadow.layers.layer_store import RetainedLayers, RetainedTop
from core.shadow.layers.merged_tree import MergedTree

# The inputs of the preparation, except for the project: the retained layers, the pending changes, the verdicts.
PreparationBasis = tuple[RetainedLayers, dict[str, Change], tuple[VerdictRecord, ...]]


class PreparedGitState(Struct, frozen=True):
    """A prepared state of git: `name`, the id of the future verdict; `basis`, its inputs; `notes`, the differences from
    the state that commands left."""

    name: str
    basis: PreparationBasis
    notes: tuple[str, ...]


class GitPreparation:
    """Prepare the states of git of one session."""

    def __init__(self, tree: MergedTree, git: GitState) -> None:
        self._layers = tree.layers
        self._git = git
        self._state = tree.state

    def build(self, tops: Mapping[str, RetainedTop], name: str) -> PreparedGitState | None:
        """Build the layer to be written, in the directory of the verdict `name`; None if the bulk is no state of git.

        Raises `ReviewConflict` if the state must not be accepted, and OSError; the directory is removed then.
        """
        repositories = _find_repositories(tops)
        if not repositories:
            return None
        basis = self._capture_basis()
        directory = self._layers.reserve(name)
        try:
            (directory / "prepared").mkdir(mode=0o700)
            notes = tuple(note for path in repositories for note in self._git.prepare(path, directory / "prepared"))
        except BaseException:
            self._layers.close(name, keep=False)
            raise
        self._layers.close(name, keep=True)
        return PreparedGitState(name, basis, notes)

    def apply_to(self, decision: BulkDecision, ready: PreparedGitState | None) -> BulkDecision:
        """Add the notes of the preparation to the decision, after repeating it if its inputs have changed. Raises as
        `build`."""
        if not _find_repositories(decision.tops):
            return decision
        if ready is None or ready.basis != self._capture_basis():
            self.drop(decision.verdict.id)
            ready = self.build(decision.tops, decision.verdict.id)
        assert ready is not None
        excerpt = "; ".join([decision.verdict.excerpt, *ready.notes])
        return replace(decision, verdict=replace(decision.verdict, excerpt=excerpt))

    def drop(self, name: str) -> None:
        """Remove the preparation of a verdict."""
        with suppress(OSError):
            remove_tree(self._layers.location / name)

    def _capture_basis(self) -> PreparationBasis:
        return self._layers.retained, dict(self._state.changes), tuple(self._state.verdicts)


def _find_repositories(tops: Mapping[str, RetainedTop]) -> list[str]:
    return [path for path, top in tops.items() if top.kind == "git"]
