"""How far one thing walks through the program: the functions of ours that run on the way, and the files they stand in.

Counted in process with `sys.setprofile`, in every thread: each function of `core` once, without comprehensions and
lambdas. The second of two turns is counted, so that what is made once per session is not.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.served import ROOT, home
from benchmarks.table import Result

SCRIPT = """\
turns:
  - steps:
      - text: Ready.
  - steps:
      - tool_calls:
          - {name: read_file, arguments: {target_file: a.py}}
      - tool_calls:
          - {name: search_replace, arguments: {file_path: a.py, old_string: "one = 1", new_string: "one = 2"}}
      - text: Done.
"""
PROVIDER = str(ROOT / "core" / "providers" / "scripted_provider.py")


class Walk:
    """The functions that run between `begin` and `end`."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()
        self._is_on = False
        self.marks: dict[str, set[tuple[str, str]]] = {}

    def watch(self) -> None:
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def stop(self) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def begin(self) -> None:
        self._seen, self._is_on = set(), True

    def end(self, name: str) -> None:
        if self._is_on:
            self.marks.setdefault(name, self._seen)
            self._is_on = False

    def _note(self, frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        if not self._is_on or event != "call" or not code.co_filename.startswith(f"{ROOT}/core/"):
            return
        if code.co_name.startswith("<"):
            return
        if code.co_filename == PROVIDER and code.co_name == "stream":
            self.end("prompt to provider")
            self.begin()
            return
        self._seen.add((code.co_filename, code.co_qualname))


def measure(*, quick: bool) -> Iterator[Result]:
    """Functions and files of each of the three ways; `quick` changes nothing."""
    with home() as folder:
        project = folder / "project"
        project.mkdir()
        (project / "a.py").write_text("one = 1\n")
        script = folder / "script.yaml"
        script.write_text(SCRIPT)
        marks = asyncio.run(_walk(project, f"scripted/{script}"))
    for name, mark in marks.items():
        yield Result(what=f"{name}: functions", value=len(mark), unit="")
        yield Result(what=f"{name}: files", value=len({path for path, _ in mark}), unit="")


async def _walk(project: Path, model: str) -> dict[str, set[tuple[str, str]]]:
    from core.engine import Engine, EngineOptions
    from core.protocol import commands as cmd
    from core.protocol import events as ev

    walk = Walk()
    engine = Engine(project, options=EngineOptions(model=model, watch=False))
    try:
        opened = await engine.submit(cmd.SessionOpen(mode="agent"))
        session = opened.session

        async def until(kind: type) -> Any:
            async for envelope in engine.events(session, after=last[0]):
                last[0] = max(last[0], envelope.seq)
                if isinstance(envelope.event, kind):
                    return envelope.event
            raise AssertionError(f"the stream ended without {kind.__name__}")

        last = [0]
        await engine.submit(cmd.TurnSubmit(session=session, text="Begin."))
        await until(ev.TurnFinished)
        walk.watch()
        walk.begin()
        await engine.submit(cmd.TurnSubmit(session=session, text="Change one."))
        await until(ev.ChangeProposed)
        walk.end("end of the answer to shadow")
        await until(ev.TurnFinished)
        walk.begin()
        await engine.submit(cmd.HunkResolve(session=session, path="a.py", verdict="accept"))
        await until(ev.FileWritten)
        walk.end("verdict to disk")
        walk.stop()
        return walk.marks
    finally:
        await engine.close()
