"""`python -m benchmarks transcripts`: a search over the transcripts of a project with a thousand sessions.

The logs are real in their bytes: what sessions write, with the text of this repository (its documents, its code, its
history) as prompts, answers, files that were read, edits and output of commands.
"""

from __future__ import annotations

import random
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.table import Result
from core.protocol import documents as d
from core.protocol import events as ev
from core.protocol.events import Envelope
from core.protocol.messages import AssistantMessage, ToolMessage, UserMessage
from core.sessions.record_format import encode_record
from core.sessions.store import SessionStore
from core.sessions.transcript_search import TranscriptIndex

ROOT = Path(__file__).parent.parent
STARTED = 1_760_000_000_000
WORDS = ("the", "shadow", "journal promotion", '"the event log"', "nowhere at all", "hunk verdict conflict merge")


class Corpus:
    """Real text to write logs from."""

    def __init__(self) -> None:
        self.prose = [part for path in sorted(ROOT.glob("docs/*.md")) for part in path.read_text().split("\n\n")]
        self.code = [text for path in sorted(ROOT.glob("core/**/*.py")) if len(text := path.read_text()) > 100]
        command = ["git", "-C", str(ROOT), "log", "-n", "2000", "--stat", "--format=%x00%B"]
        log = subprocess.run(command, capture_output=True, text=True, check=True)
        self.commits = [message.strip() for message in log.stdout.split("\0") if message.strip()]


def write_session(store: SessionStore, corpus: Corpus, number: int) -> None:
    """Write the log of one session of eight turns, some 400 kB."""
    chance = random.Random(number)
    name = f"ses_{number:016d}"
    directory = store.sessions_path / name
    (directory / "blobs").mkdir(parents=True)
    with (directory / "log.jsonl").open("wb") as file:
        for seq, (turn, event) in enumerate(_tell(store, corpus, chance), 1):
            timestamp = STARTED + number * 3_600_000 + seq * 1_000
            file.write(encode_record(Envelope(seq=seq, session=name, at=timestamp, event=event, turn=turn)))


def _tell(store: SessionStore, corpus: Corpus, chance: random.Random) -> Iterator[tuple[str, ev.AnyEvent]]:
    yield "", ev.SessionStarted(workspace=str(store.workspace), mode="agent", model="openai/gpt-5")
    for index in range(8):
        yield from ((f"turn_{index}", event) for event in _tell_turn(corpus, chance, index))


def _tell_turn(corpus: Corpus, chance: random.Random, index: int) -> Iterator[ev.AnyEvent]:
    prompt = chance.choice(corpus.commits)
    yield ev.TurnStarted(prompt=prompt, mode="agent", model="openai/gpt-5")
    yield ev.MessageAppended(message=UserMessage(content=prompt))
    for step in range(6):
        document, call = f"doc_{index}_{step}", f"call_{index}_{step}"
        code, answer = chance.choice(corpus.code), "\n\n".join(chance.choices(corpus.prose, k=2))
        yield ev.DocumentStarted(id=document, kind="text", sequence=step)
        yield ev.DocumentFinished(document=d.TextDocument(id=document, sequence=step, content=answer))
        yield ev.MessageAppended(message=AssistantMessage(content=answer))
        yield ev.DocumentFinished(document=_use_tool(corpus, chance, document, call, code, step))
        yield ev.MessageAppended(message=ToolMessage(call_id=call, content=code))
    yield ev.TurnFinished(reason="done")


def _use_tool(corpus: Corpus, chance: random.Random, document: str, call: str, code: str, step: int) -> d.Document:
    lines = code.splitlines()
    match step % 3:
        case 0:
            read = d.ToolCallMetadata(
                tool_name="read_file", tool_call_id=call, arguments={"target_file": lines[0][:60]}, summary="13 lines"
            )
            return d.ToolCallDocument(id=f"{document}t", sequence=step, metadata=read)
        case 1:
            output = "\n".join(chance.choices(corpus.commits, k=4))
            ran = d.TerminalCommandMetadata(command="git log --stat", exit_code=0, output=output, tool_call_id=call)
            return d.TerminalCommandDocument(id=f"{document}t", sequence=step, metadata=ran)
        case _:
            index = chance.randrange(max(len(lines) - 20, 1))
            sides = ("\n".join(lines[index : index + 10]), "\n".join(lines[index + 5 : index + 20]))
            diff = d.FileEditDiff(old_string=sides[0], new_string=sides[1], start_line=index + 1, end_line=index + 11)
            edit = d.FileEditMetadata(file_path="core/a.py", operation="edit", diff=diff, tool_call_id=call)
            return d.FileEditDocument(id=f"{document}t", sequence=step, metadata=edit)


def write_sessions(store: SessionStore, numbers: Sequence[int]) -> None:
    """Write so many sessions, all different and the same at every run."""
    corpus = Corpus()
    for number in numbers:
        write_session(store, corpus, number)


def measure(*, quick: bool) -> Iterator[Result]:
    """Search as `agent-tui sessions search` does: what is new is looked for first."""
    count = 100 if quick else 1_000
    with tempfile.TemporaryDirectory() as temporary_directory:
        store = SessionStore(ROOT, Path(temporary_directory))
        write_sessions(store, range(count))
        begin = time.perf_counter()
        _search(store, "shadow")
        yield Result(what=f"transcripts of {count:,} sessions: read for the first time", value=_since(begin), unit="s")
        worst = max(_time_search(store, words) for words in WORDS)
        yield Result(
            what=f"transcripts of {count:,} sessions: the slowest of 6 searches", value=worst, unit="s", limit=0.5
        )
        write_session(store, Corpus(), count)
        begin = time.perf_counter()
        _search(store, "shadow")
        yield Result(what="transcripts: a search when one session is new", value=_since(begin), unit="s", limit=0.5)


def _time_search(store: SessionStore, words: str) -> float:
    begin = time.perf_counter()
    _search(store, words)
    return _since(begin)


def _search(store: SessionStore, words: str) -> None:
    with TranscriptIndex(store) as index:
        index.refresh()
        index.search(words)


def _since(begin: float) -> float:
    return time.perf_counter() - begin
