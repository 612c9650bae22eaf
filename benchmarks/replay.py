"""What a long history costs when it is opened: a log of 100,000 events, read, checked and folded, by both sides."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.served import home
from benchmarks.table import Result
from benchmarks.words import text
from core.protocol import documents, events
from core.protocol.messages import AssistantMessage, Usage, UserMessage
from core.sessions.log import SessionLog
from tests.support.folded import fold_events
from tests.support.session_log import scan
from tui.state import ViewState, show_event


def measure(*, quick: bool) -> Iterator[Result]:
    """Without a limit: numbers to be watched."""
    count = 10_000 if quick else 100_000
    with home() as folder:
        path = folder / "log.jsonl"
        begin = time.perf_counter()
        _write(path, count)
        yield Result(what=f"log of {count:,} events: write", value=time.perf_counter() - begin, unit="s")
        begin = time.perf_counter()
        scan_result = scan(path)
        read = time.perf_counter()
        fold_events(scan_result.envelopes)
        folded = time.perf_counter()
        state = ViewState(session_id="bench")
        for envelope in scan_result.envelopes:
            show_event(state, envelope)
        shown_time = time.perf_counter()
    assert len(scan_result.envelopes) == count
    assert scan_result.whole
    yield Result(what=f"log of {count:,} events: read and check", value=read - begin, unit="s")
    yield Result(what=f"log of {count:,} events: fold in the engine", value=folded - read, unit="s")
    yield Result(what=f"log of {count:,} events: fold on the screen", value=shown_time - folded, unit="s")


def _write(path: Path, count: int) -> None:
    log = SessionLog(path)
    events = _events()
    for seq in range(1, count + 1):
        turn = f"turn_{seq // 8}"
        log.append(_envelope(seq, next(events), turn))
    log.close()


def _envelope(seq: int, event: events.AnyEvent, turn: str) -> events.Envelope:
    return events.Envelope(seq=seq, session="bench", at=seq, event=event, turn=turn)


def _events() -> Iterator[events.AnyEvent]:
    """Turns of eight events, for ever."""
    answer, usage, number = text(100), Usage(prompt_tokens=100, completion_tokens=100), 0
    while True:
        number += 1
        document = documents.TextDocument(id=f"doc_{number}", sequence=1, content=answer)
        yield events.TurnStarted(prompt="go on", mode="agent", model="openai/bench-1")
        yield events.MessageAppended(message=UserMessage(content="go on"))
        yield events.StepStarted(step=1)
        yield events.DocumentStarted(id=document.id, sequence=1, kind="text")
        yield events.DocumentFinished(document=document)
        yield events.MessageAppended(message=AssistantMessage(content=answer))
        yield events.StepFinished(step=1, usage=usage)
        yield events.TurnFinished(reason="done", usage=usage)
