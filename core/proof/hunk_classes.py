"""The class of each pending hunk: what kind of change it is, by its text alone.

Only *code* needs evidence by running; everything else is folded in the review, apart from tests and from what decides
how they run. Where it is not certain that nothing else was changed, a hunk is code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from core.proof.classes.moved_blocks import find_moves
from core.proof.classes.path_kinds import classify_file
from core.proof.classes.python_trees import PythonModule, compare_trees, read_module
from core.proof.classes.syntax_trees import compare_syntax
from core.proof.classes.uniform_edits import Place, Substitution, find_substitution, find_uniform_edits
from core.protocol.evidence import HunkKind
from core.protocol.review import Change, Hunk
from core.shadow.diff.hunks import select_hunks
from core.shadow.diff.text_lines import split_lines
from core.shell.verification.clean_layer import FileVariant

_PYTHON: Final = (".py",)


class ChangedText(Struct, frozen=True):
    """A pending change with the bytes of its two sides, those that its hunks are counted in."""

    change: Change
    base: bytes
    pending: bytes

    def take_out(self, hunks: Iterable[Hunk]) -> FileVariant:
        """Return the file without these hunks."""
        change = self.change
        ids = {hunk.id for hunk in hunks}
        rest = [hunk for hunk in change.hunks if hunk.id not in ids]
        if not rest and change.operation == "create":
            return FileVariant(None)
        state = change.base if change.operation == "delete" else change.pending
        return FileVariant(select_hunks(self.base, self.pending, rest), state.mode)


class HunkClass(Struct, frozen=True, kw_only=True):
    """The class of a hunk. `partner`: the id of the hunk on the other side of a move, or of the one that stands for the
    same edit in many places; `substitution`: that edit. `unless_noticed`: what it is if no test notices it, "" = its
    kind."""

    kind: HunkKind
    unless_noticed: Literal["types", ""] = ""
    partner: str = ""
    substitution: str = ""


CODE: Final = HunkClass(kind="code")


def classify_hunks(texts: Iterable[ChangedText]) -> dict[Place, HunkClass]:
    """Return the class of each hunk, by path and id."""
    classes = dict[Place, HunkClass]()
    substitutions = list[tuple[Place, Substitution]]()
    for text in texts:
        path = text.change.path
        file_classes = _classify_file(text)
        classes |= {(path, hunk): hunk_class for hunk, hunk_class in file_classes.items()}
        substitutions += [
            ((path, hunk.id), substitution)
            for hunk in text.change.hunks
            if file_classes[hunk.id].kind == "code"
            and (substitution := find_substitution(*_read_sides(text, hunk))) is not None
        ]
    for place, (substitution, exemplar) in find_uniform_edits(substitutions).items():
        if place == exemplar:
            classes[place] = replace(classes[place], substitution=substitution.format())
        else:
            classes[place] = HunkClass(kind="uniform", partner=exemplar[1], substitution=substitution.format())
    return classes


def _classify_file(text: ChangedText) -> dict[str, HunkClass]:
    change = text.change
    renames = {hunk.id: HunkClass(kind="rename") for hunk in change.hunks if hunk.moves}
    hunks = [hunk for hunk in change.hunks if not hunk.moves]
    if change.binary or "symlink" in (change.base.kind, change.pending.kind):
        return renames | {hunk.id: HunkClass(kind="binary") for hunk in hunks}
    kind = classify_file(change.path, text.pending.decode("utf-8", "replace"))
    if kind != "code":
        return renames | {hunk.id: HunkClass(kind=kind) for hunk in hunks}
    return renames | _classify_code(text, hunks)


def _classify_code(text: ChangedText, hunks: Sequence[Hunk]) -> dict[str, HunkClass]:
    path = text.change.path
    module = read_module(text.pending.decode("utf-8", "replace")) if path.endswith(_PYTHON) else None
    classes = {hunk.id: _compare(text, hunk, hunks, module) for hunk in hunks}
    codes = [hunk for hunk in hunks if classes[hunk.id].kind == "code"]
    moves = find_moves(path, _decode_lines(text.base), _decode_lines(text.pending), codes)
    return classes | {hunk: HunkClass(kind="move", partner=partner) for hunk, partner in moves.items()}


def _compare(text: ChangedText, hunk: Hunk, hunks: Sequence[Hunk], module: PythonModule | None) -> HunkClass:
    path = text.change.path
    if text.change.operation in ("create", "delete"):
        return CODE
    if path.endswith(_PYTHON):
        if module is None:
            return CODE
        start = hunk.new_start - 1
        kind = compare_trees(module, start, start + hunk.new_lines, _read_sides(text, hunk)[0])
        return HunkClass(kind="code", unless_noticed="types") if kind == "decorated" else HunkClass(kind=kind)
    without = select_hunks(text.base, text.pending, [other for other in hunks if other.id != hunk.id])
    kind = compare_syntax(path, text.pending.decode("utf-8", "replace"), without.decode("utf-8", "replace"))
    return HunkClass(kind=kind)


def _read_sides(text: ChangedText, hunk: Hunk) -> tuple[list[str], list[str]]:
    """Return the lines of both sides of a hunk, without their endings."""
    old, new = hunk.old_start - 1, hunk.new_start - 1
    return (
        _decode_lines(text.base)[old : old + hunk.old_lines],
        _decode_lines(text.pending)[new : new + hunk.new_lines],
    )


def _decode_lines(data: bytes) -> list[str]:
    return [line.decode("utf-8", "replace").rstrip("\r\n") for line in split_lines(data)]
