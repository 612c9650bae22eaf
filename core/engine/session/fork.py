"""Copy a session up to a moment into a new one: its log, with blobs and layers as hard links."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from core.engine.session.opening import resume_session
from core.engine.session.session import Session
from core.errors import StateError
from core.filesystem.atomic_write import stream_replacement
from core.filesystem.private_directories import make_private_directory
from core.filesystem.removal import remove_tree
from core.ids import new_id
from core.protocol.events import SessionForked, SessionRenamed
from core.sessions import record_format as records
from core.sessions.store import SessionDirectory
from core.shadow.layers.layer_files import link_entry, link_tree
from core.shadow.layers.layer_store import LayerStore, RetainedLayers
from core.shadow.layers.pending_layer import copy_seen
from core.state.session import ConversationCheckpoint


def fork_session(source: Session, checkpoint: ConversationCheckpoint | None, target: SessionDirectory) -> Session:
    """Make a session in a new directory that goes on where the source is, or was. `StateError` when it can't be."""
    _fill_directory(source, target, checkpoint)
    session = resume_session(target, source.services)
    session.emit(SessionForked(source=source.id, at=checkpoint.id if checkpoint is not None else ""))
    session.emit(SessionRenamed(title=f"{source.state.title} (fork)".strip()))
    return session


def _fill_directory(source: Session, target: SessionDirectory, checkpoint: ConversationCheckpoint | None) -> None:
    """Fill the directory of a new session; the log comes last. `StateError` when it can't be written."""
    moment = new_id("fork")
    source.shadow.layers.freeze(moment, source.state.seq)
    try:
        _link_files(source.directory.blobs_path, target.blobs_path)
        _link_files(source.directory.outputs_path, target.outputs_path)
        for path in source.directory.path.glob("prefix*.json"):
            link_entry(path, target.path / path.name)
        _copy_layers(source, target, checkpoint)
        _copy_log(source, target, checkpoint.seq if checkpoint else source.state.seq)
    except OSError as error:
        raise StateError(
            f"The session can't be copied to {target.path}: {error.strerror}.", hint="Make room, then try again."
        ) from error
    finally:
        with suppress(OSError):
            source.shadow.layers.unfreeze(moment)


def _link_files(source: Path, target: Path) -> None:
    for above, _, names in os.walk(source):
        directory = target / Path(above).relative_to(source)
        make_private_directory(directory)
        for name in names:
            if not name.endswith(".tmp"):
                link_entry(Path(above) / name, directory / name)


def _copy_layers(source: Session, target: SessionDirectory, checkpoint: ConversationCheckpoint | None) -> None:
    """Copy the kept layers, those of the checkpoints up to `checkpoint`, and what undoing their verdicts needs."""
    layers = source.shadow.layers
    layer_record = layers.retained if checkpoint is None else layers.read_frozen(checkpoint.id) or RetainedLayers()
    marks = [mark for mark in source.state.checkpoints.values() if checkpoint is None or mark.seq <= checkpoint.seq]
    if not layers.exists or (layer_record == RetainedLayers() and not any(mark.generated for mark in marks)):
        return
    copy = LayerStore(target.path / "layers")
    copy.write_record(layer_record)
    for mark in marks:
        if (record := layers.checkpoint_records.find_path(mark.id)) is not None:
            copy.checkpoint_records.add(
                mark.id, mark.seq, record, layers.checkpoint_records.layers_by_record[record.name]
            )
    names = [*copy.retained.layers, *copy.checkpoint_records.layers, *source.shadow.bulks.redo_store.list_directories()]
    try:
        for name in dict.fromkeys(names):
            if (layers.location / name).is_dir():
                link_tree(layers.location / name, copy.location / name)
        copy_seen(layers, copy)
    except OSError:
        remove_tree(copy.location)
        raise


def _copy_log(source: Session, target: SessionDirectory, last: int) -> None:
    """Copy the records up to `last`, with the new session's id in place of the old one's."""
    old, new = source.id.encode("ascii"), target.id.encode("ascii")
    with stream_replacement(target.log_path) as file:
        after = 0
        while after < last and (envelopes := source.log.read(after=after, limit=min(512, last - after))):
            for envelope in envelopes:
                file.write(records.encode_record(envelope, old=old, new=new))
            after = envelopes[-1].seq
