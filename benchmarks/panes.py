"""Large things on the screen: a diff of 10,000 lines, a tree of 50,000 files, a plan of 5,000 todos, 300 answers."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator, Sequence

from textual.app import App, ComposeResult

from benchmarks.table import Result
from benchmarks.words import text
from core.protocol.documents import TextDocument
from core.protocol.events import DocumentFinished, Envelope
from tests.tui.panes_speed import diff_speed, draw, plan_speed, tree_speed
from tui.chat.transcript import Transcript
from tui.state import ViewState, show_event

ROUNDS = 40


def measure(*, quick: bool) -> Iterator[Result]:
    """In one process, on a screen without a terminal: what the widgets themselves take."""
    lines, files = (2_000, 5_000) if quick else (10_000, 50_000)
    for layout, split in (("one column", False), ("two columns", True)):
        figures = asyncio.run(diff_speed(lines, 60 if quick else 200, split=split))
        label = f"diff of {lines:,} lines, {layout}"
        yield Result(what=f"{label}: open", value=figures["open"], unit="s", limit=0.3)
        yield Result(
            what=f"{label}: scroll a row, 95th percentile", value=figures["step_p95"] * 1000, unit="ms", limit=16
        )
        yield Result(what=f"{label}: scroll a page, 95th percentile", value=figures["jump_p95"] * 1000, unit="ms")
    figures = asyncio.run(tree_speed(files))
    yield Result(what=f"tree of {files:,} files in 500 directories: open", value=figures["open"], unit="s")
    yield Result(what=f"directory of {files:,} files: unfold", value=figures["flat"], unit="s", limit=1.0)
    few, many = (asyncio.run(plan_speed(count)) for count in (50, 5_000))
    for label, key in (("list", "status"), ("graph", "graph_status")):
        yield Result(
            what=f"a new status in the {label} of a plan of 5,000 todos",
            value=many[key] * 1000,
            unit="ms",
            limit=100,
            yardstick=few[key] * 1000,
            yardstick_name="of 50 todos",
            ratio_limit=12,
        )
    few, many = asyncio.run(_one_more(10)), asyncio.run(_one_more(300))
    yield Result(
        what="one more line under 300 answers",
        value=many * 1000,
        unit="ms",
        limit=16,
        yardstick=few * 1000,
        yardstick_name="under 10 answers",
        ratio_limit=1.5,
    )


class _TranscriptApp(App[None]):
    def compose(self) -> ComposeResult:
        yield Transcript()


def _state(answers: Sequence[str]) -> ViewState:
    state = ViewState(session_id="bench")
    for number, content in enumerate(answers, 1):
        _add(state, number, content)
    return state


def _add(state: ViewState, number: int, content: str) -> None:
    document = TextDocument(id=f"doc_{number}", sequence=number, content=content)
    show_event(state, Envelope(seq=number, session="bench", at=number, event=DocumentFinished(document=document)))


async def _one_more(answers: int) -> float:
    """Median seconds from an event to the frame that shows it."""
    app = _TranscriptApp()
    async with app.run_test(size=(120, 40)) as pilot:
        state = _state([text(200)] * answers)
        transcript = app.query_one(Transcript)
        transcript.show(state.blocks)
        await pilot.pause()
        times = []
        for number in range(ROUNDS):
            begin = time.perf_counter()
            _add(state, answers + 1 + number, f"line {number}")
            transcript.show(state.blocks)
            draw(app)
            times.append(time.perf_counter() - begin)
            await pilot.pause()
        return statistics.median(times)
