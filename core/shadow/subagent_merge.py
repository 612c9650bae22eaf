"""Merges a subagent session's work into this session's shadow: its changes path by path, and its retained layers.

The subagent began with a copy of our pending changes. Its changes of a path since then are merged, three ways, with our
present pending state; nothing of either side is lost. A merge that was interrupted by a crash can be repeated for the
remaining paths.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from core.errors import AgentTuiError, PathRefused, StateError
from core.protocol.paths import list_parents
from core.protocol.review import Change, FileState, Origin
from core.shadow.content.contents import ChangeSides
from core.shadow.content.paths import format_paths
from core.shadow.layers.layer_delta import LayerDelta
from core.shadow.layers.layer_stack import NO_LAYERS, LayerStack
from core.shadow.layers.layer_store import RetainedLayers
from core.shadow.review.conflicts import has_conflict_with
from core.shadow.review.proposals import PathEffect
from core.shadow.shadow import Shadow
from core.state.review import ReviewCheckpoint
from core.workspace.file_names import is_git_internal

MAX_NAMED = 6  # paths in a note


class SubagentMergeResult(Struct, frozen=True, kw_only=True):
    """The result: `paths` that the subagent changed, those of them in conflict now, and those that were refused here;
    `generated`: the number of files in retained layers; `notes` on what was left out or replaced."""

    paths: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    generated: int = 0
    refused: tuple[str, ...] = ()


def compare_changes(
    initial_changes: Mapping[str, Change], now: Mapping[str, Change], read_state: Callable[[str], FileState | None]
) -> Iterator[tuple[str, ChangeSides]]:
    """Yield the paths that differ from the pending state at the beginning of a session, with both states, sorted.

    `read_state`: the state of a path that was pending then and is no longer; None: unknown, the path is left out.
    """
    for path in sorted({*initial_changes, *now}):
        # The session began with the pending state, else with the base of its own change.
        initial_state = initial_changes[path].pending if path in initial_changes else now[path].base
        target_state = now[path].pending if path in now else read_state(path)
        if target_state is not None and initial_state != target_state:
            yield path, ChangeSides(base=initial_state, pending=target_state)


class SubagentWork(Struct, frozen=True):
    """The work of the session of `shadow` since its own checkpoint `name` (`checkpoint`)."""

    shadow: Shadow
    checkpoint: ReviewCheckpoint
    name: str

    def list_effects(self, origin: Origin) -> list[PathEffect]:
        """List the effects on reviewed paths, deletions first."""
        now = self.shadow.state.changes
        effects = [
            PathEffect(
                path=path,
                base=sides.base,
                result=sides.pending,
                origin=origin,
                renamed_from=now[path].renamed_from if path in now else "",
            )
            for path, sides in compare_changes(self.checkpoint.changes, now, self._read_settled)
        ]
        return sorted(effects, key=lambda effect: (effect.result.kind != "absent", effect.path))

    def _read_settled(self, path: str) -> FileState | None:
        try:
            return self.shadow.merged_tree.read_disk_state(path)
        except PathRefused:
            return None

    def compute_own_delta(self) -> LayerDelta | None:
        """Compute the changes of its retained layers; None if their initial state is no longer known."""
        if not self.shadow.layers.retained.layers and not self.checkpoint.generated:
            return LayerDelta(NO_LAYERS, NO_LAYERS)
        return self.compute_delta(self.shadow)

    def compute_delta(self, shadow: Shadow) -> LayerDelta | None:
        """Compute the delta from this session's initial retained layers to the present ones of `shadow`."""
        layers = self.shadow.layers
        frozen_layers = layers.read_frozen(self.name) if self.checkpoint.generated else RetainedLayers()
        if frozen_layers is None:
            return None
        initial_stack = LayerStack([layers.get_upper(layer) for layer in reversed(frozen_layers.layers)])
        return LayerDelta(initial_stack, shadow.merged_tree.stack)


class SubagentMerge:
    """Merge a subagent's work into `shadow`. `step` is called between its effects (tests interrupt there)."""

    def __init__(self, shadow: Shadow, work: SubagentWork, *, step: Callable[[str], None] = lambda _: None) -> None:
        self._shadow = shadow
        self._work = work
        self._step = step

    def run(
        self, origin: Origin, *, started_ns: int, merged_paths: Collection[str] = (), without: Collection[str] = ()
    ) -> SubagentMergeResult:
        """Merge the work. `started_ns`: when it began (ns since 1970); `merged_paths`: paths that were merged before a
        crash; `without`: paths to leave out. Emits the same events as edits and commands do."""
        effects = self._work.list_effects(origin)
        notes = [f"What it wrote to {effect.path} was left out." for effect in effects if effect.path in without]
        remaining_effects = [effect for effect in effects if effect.path not in without]
        refused_paths = []
        for effect in remaining_effects:
            if effect.path not in merged_paths:
                if reason := self._merge_path(effect):
                    notes.append(reason)
                    refused_paths.append(effect.path)
                self._step(effect.path)
        self._record_removed_directories()
        generated_count = self._merge_generated(origin, started_ns, notes)
        if generated_count:  # generated from what the subagent saw, which may differ from the present pending state
            self._shadow.renew([effect.path for effect in effects if self._differs_here(effect)])
        self._step("generated")
        paths = tuple(effect.path for effect in remaining_effects)
        changes = self._shadow.state.changes
        conflicts = tuple(path for path in paths if has_conflict_with(changes.get(path), origin.call))
        return SubagentMergeResult(
            paths=paths,
            conflicts=conflicts,
            notes=tuple(notes),
            generated=generated_count,
            refused=tuple(refused_paths),
        )

    def _differs_here(self, effect: PathEffect) -> bool:
        change = self._shadow.state.changes.get(effect.path)
        return change is None or change.pending != effect.result

    def _merge_path(self, effect: PathEffect) -> str | None:
        """Merge one path. Return why it was refused; None: it was merged."""
        for state in (effect.base, effect.result):
            if state.kind != "absent":
                self._shadow.blobs.put(self._work.shadow.blobs.get(state.blob))
        try:
            self._shadow.merge_effect(effect)
        except StateError:
            raise
        except AgentTuiError as problem:
            return f"{effect.path} could not be merged: {problem.message}"
        return None

    # retained layers

    def _record_removed_directories(self) -> None:
        """Record the directories that the subagent removed, so that they are removed with the last of their files."""
        layers = self._shadow.layers
        removed_directories = self._work.shadow.layers.retained.gone | layers.retained.gone
        if removed_directories != layers.retained.gone:
            layers.write_record(replace(layers.retained, gone=removed_directories))

    def _merge_generated(self, origin: Origin, started_ns: int, notes: list[str]) -> int:
        their_delta = self._work.compute_own_delta()
        if their_delta is not None and not their_delta.paths:
            return 0
        our_delta = self._work.compute_delta(self._shadow)
        if their_delta is None or our_delta is None:
            notes.append("What its commands left outside the review was not merged: there was no space for it.")
            return 0
        for verdict in self._work.shadow.state.verdicts:
            if verdict.superseded:
                their_delta.exclude_removals(verdict.path)
        notes += _resolve_overlaps(their_delta, our_delta)
        if not their_delta.paths:
            return 0
        layer = self._shadow.open_layer()
        try:
            their_delta.write_to(layer.upper)
            effects = self._shadow.absorb(layer, origin=origin, started_ns=started_ns)
        except BaseException as error:
            self._shadow.drop_layer(layer)
            if isinstance(error, OSError):
                raise StateError(f"What commands left can't be merged: {error.strerror}.") from error
            raise
        notes += effects.notes
        return effects.generated


def _resolve_overlaps(their_delta: LayerDelta, our_delta: LayerDelta) -> Iterator[str]:
    """Resolve paths in retained layers that both changed: of git's state ours stays, otherwise theirs is later and
    wins."""
    repositories = sorted({git for path in their_delta.paths if (git := _find_git_directory(path))})
    for git in repositories:
        if any(_find_git_directory(path) == git for path in our_delta.paths):
            their_delta.exclude(git)
            yield f"Its git state ({git}: index, commits) was left out, because others changed that too."
    both = sorted(their_delta.paths & our_delta.paths)
    if both:
        yield f"Generated files that others also made now have this version: {format_paths(both, MAX_NAMED)}."


def _find_git_directory(path: str) -> str:
    return next((candidate for candidate in (*list_parents(path), path) if is_git_internal(candidate)), "")


def copy_for_subagent(changes: Collection[Change]) -> list[Change]:
    """Return pending changes as the initial ones of a subagent: whole, and without conflicts."""
    return [
        replace(change, conflict="", competing_versions=(), check=None)
        for change in changes
        if change.base != change.pending
    ]
