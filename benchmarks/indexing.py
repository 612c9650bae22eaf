"""The index of a project of 2,900 Python files: until all of it can be found, after a restart, after a change.

The files are those of the interpreter and its packages, so that they are as long and as odd as source is.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sysconfig
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path

from benchmarks.served import home
from benchmarks.table import Result
from core.index.builder import IndexBuilder, open_builder
from core.syntax.grammars import parse_syntax
from core.workspace import Workspace

_LONGEST = 16_000


def measure(*, quick: bool) -> Iterator[Result]:
    """Wall time, vectors not counted where it says so."""
    with home() as folder:
        root, database = folder / "project", folder / "state" / "index.sqlite"
        paths = _copy_sources(root, 600 if quick else 2_900)
        parsed = _time(lambda: [parse_syntax(str(path), path.read_text("utf-8", "replace")) for path in paths])
        started = time.perf_counter()
        builder = open_builder(root, database, lambda status: None)
        builder.sweep()
        while builder.status.state == "building":
            builder.step()
        ready = time.perf_counter() - started
        yield Result(
            what=f"index of {len(paths):,} files: every word can be found",
            value=ready,
            unit="s",
            limit=4,
            yardstick=parsed,
            yardstick_name="parse them, one process",
            ratio_limit=4,
        )
        yield Result(what="index: vectors of all chunks, after that", value=_time(builder.finish), unit="s")
        builder.sweep()  # what was copied a moment before it was read is read once more
        builder.finish()
        builder.close()
        yield _measure_restart(root, database)
        yield _measure_changes(root, database, paths[:: len(paths) // 40])


def _copy_sources(root: Path, count: int) -> list[Path]:
    """Copy Python files of a usual length; return where they are."""
    places = [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib")]
    paths = chain.from_iterable(sorted(directory.rglob("*.py")) for directory in places)
    usual = (path for path in paths if path.is_file() and path.stat().st_size < _LONGEST)
    copies = []
    for number, path in enumerate(islice(usual, count)):
        target = root / f"package{number // 40:03}" / f"{number:04}_{path.name}"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        copies.append(target)
    return copies


def _measure_restart(root: Path, database: Path) -> Result:
    def restart() -> None:
        builder = IndexBuilder(Workspace(root), database, lambda status: None)
        builder.sweep()
        builder.close()

    def walk() -> None:
        for directory, _, names in os.walk(root):
            for name in names:
                os.stat(os.path.join(directory, name))  # noqa: PTH116, PTH118 - the cheapest way there is

    return Result(
        what="index: open it again and compare all files",
        value=min(_time(restart) for _ in range(5)),
        unit="s",
        limit=0.1,
        yardstick=min(_time(walk) for _ in range(5)),
        yardstick_name="os.walk and os.stat",
        ratio_limit=8,
    )


def _measure_changes(root: Path, database: Path, paths: list[Path]) -> Result:
    builder = IndexBuilder(Workspace(root), database, lambda status: None)
    seconds = []
    for path in paths:
        path.write_text(path.read_text("utf-8", "replace") + "\n\ndef fresh():\n    pass\n", "utf-8")
        seconds.append(_time(partial(builder.update_paths, [str(path.relative_to(root))])))
    builder.finish()
    builder.close()
    return Result(what="index: one changed file, median", value=statistics.median(seconds) * 1000, unit="ms", limit=20)


def _time(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
