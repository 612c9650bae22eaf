"""What a command's layer costs beside the command: scanning it, taking it in, and laying the pending changes out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.served import home
from benchmarks.table import Result
from core.protocol.events import AnyEvent
from core.protocol.review import Origin
from core.shadow.content.blob_store import BlobStore
from core.shadow.layers.layer_store import CommandLayer
from core.shadow.layers.overlayfs import scan_layer
from core.shadow.shadow import Shadow
from core.state.review import ReviewState
from core.workspace import Workspace

LINES = 40


def measure(*, quick: bool) -> Iterator[Result]:
    """A layer of edited sources, and one of 5,000 generated files."""
    edited, generated = (200, 5_000) if quick else (1_000, 5_000)
    with home() as folder:
        root = folder / "project"
        shadow = _shadow(folder, root, edited)
        layer = shadow.open_layer()
        _generate(layer, generated)
        yield Result(
            what=f"layer of {generated:,} files: scan",
            value=_best(lambda: scan_layer(layer.upper)),
            unit="s",
            limit=0.1,
        )
        yield Result(what=f"layer of {generated:,} generated files: take in", value=_absorbed(shadow, layer), unit="s")
        layer = shadow.open_layer()
        _edit(layer, root)
        yield Result(what=f"layer of {edited:,} edited files: take in", value=_absorbed(shadow, layer), unit="s")
        yield Result(what=f"{edited:,} pending changes: lay out", value=_timed(shadow.prepare_lowers), unit="s")
        shadow.write("pkg0/mod0.py", b"again\n")
        yield Result(what=f"{edited:,} pending changes: one more edit", value=_timed(shadow.prepare_lowers), unit="s")
        seconds = _timed(lambda: [shadow.diff(change.path) for change in shadow.list_changes()])
        yield Result(what=f"{edited:,} pending changes: all of their lines", value=seconds, unit="s", limit=1.0)
        seconds = _timed(lambda: shadow.accept_files([change.path for change in shadow.list_changes()]))
        yield Result(what=f"{edited:,} pending changes: accept all", value=seconds, unit="s")


def _shadow(folder: Path, root: Path, files: int) -> Shadow:
    for number in range(files):
        path = root / _name(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"line {line} of {number}\n" for line in range(LINES)))
    session = folder / "state" / "session"
    session.mkdir(parents=True)
    state = ReviewState()

    def emit(event: AnyEvent) -> None:
        state.apply(event)

    return Shadow(Workspace(root, state_dir=folder / "state"), BlobStore(session / "blobs"), emit, state)


def _name(number: int) -> str:
    return f"pkg{number % 40}/mod{number}.py"


def _generate(layer: CommandLayer, files: int) -> None:
    for number in range(files):
        path = layer.upper / "node_modules" / f"package{number % 100}" / f"file{number}.js"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"module {number}\n")


def _edit(layer: CommandLayer, root: Path) -> None:
    for source in sorted(root.rglob("*.py")):
        path = layer.upper / source.relative_to(root)
        path.parent.mkdir(exist_ok=True)
        path.write_text(source.read_text().replace("line 3 ", "LINE 3 "))


def _absorbed(shadow: Shadow, layer: CommandLayer) -> float:
    return _timed(lambda: shadow.absorb(layer, origin=Origin(call="bench"), started_ns=time.time_ns()))


def _timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _best(work: Callable[[], object]) -> float:
    return min(_timed(work) for _ in range(3))
