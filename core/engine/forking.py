"""A second session from a first one: its log up to a moment, its blobs and layers by hard links."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from core.engine.runtime import SessionRuntime
from core.errors import StateError
from core.ids import new_id
from core.sessions import records
from core.sessions.rewind import Mark
from core.sessions.store import SessionDirectory
from core.shadow.frozen import link, link_tree
from core.shadow.layers import Kept, Layers
from core.workspace.removing import remove_tree

_ALONG = ("prefix*.json",)


def fork(source: SessionRuntime, target: SessionDirectory, at: Mark | None) -> None:
    """Fill the directory of a new session; the log comes last. `StateError` when it can't be written."""
    moment = new_id("fork")
    source.shadow.layers.freeze(moment, source.log.last)
    try:
        _links(source.directory.blobs, target.blobs)
        _links(source.outputs, target.outputs)
        for pattern in _ALONG:
            for each in source.directory.path.glob(pattern):
                link(each, target.path / each.name)
        _layers(source, target, at)
        _log(source, target, at.seq if at else source.log.last)
    except OSError as error:
        raise StateError(
            f"The session can't be copied to {target.path}: {error.strerror}.", hint="Make room, then try again."
        ) from error
    finally:
        with suppress(OSError):
            source.shadow.layers.unfreeze(moment)


def _links(source: Path, target: Path) -> None:
    """All files of a directory, with those below; half-written ones are left out."""
    for above, _, names in os.walk(source):
        there = target / Path(above).relative_to(source)
        there.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in names:
            if not name.endswith(".tmp"):
                link(Path(above) / name, there / name)


def _layers(source: SessionRuntime, target: SessionDirectory, at: Mark | None) -> None:
    """The kept layers, those of the checkpoints until then, and what it takes to undo verdicts on them."""
    layers = source.shadow.layers
    kept = layers.kept if at is None else layers.thawed(at.id) or Kept()
    marks = [mark for mark in source.state.marks.values() if at is None or mark.seq <= at.seq]
    if not layers.exists or (kept == Kept() and not any(mark.generated for mark in marks)):
        return
    copy = Layers(target.path / "layers")
    copy.record(kept)
    for mark in marks:
        if (record := layers.frozen.path(mark.id)) is not None:
            copy.frozen.add(mark.id, mark.seq, record, layers.frozen.named[record.name])
    names = [*copy.kept.layers, *copy.frozen.layers, *source.shadow.beside()]
    try:
        for name in dict.fromkeys(names):
            if (layers.place / name).is_dir():
                link_tree(layers.place / name, copy.place / name)
    except OSError:
        remove_tree(copy.place)
        raise


def _log(source: SessionRuntime, target: SessionDirectory, last: int) -> None:
    """The records up to `last`; wherever they name the session, they name the new one."""
    old, new = source.id.encode("ascii"), target.id.encode("ascii")
    temporary = target.log.with_suffix(".tmp")
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:  # noqa: PTH123
        after = 0
        while after < last and (found := source.log.read(after=after, limit=min(512, last - after))):
            for envelope in found:
                file.write(records.renamed(envelope, old, new))
            after = found[-1].seq
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(target.log)
