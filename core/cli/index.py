"""`agent-tui index`: the search index of a project from the shell. Sessions use the same index."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal, get_args

import msgspec
from msgspec.structs import replace

from core.arguments import Arguments, Front
from core.cli.parsing import build_parser, parse_count, parse_directory
from core.cli.streams import fit_json, read_input, write_json
from core.config.loading import load_with_notices
from core.errors import AgentTuiError
from core.exits import ExitCode
from core.filesystem.name_spelling import resolve_spelled
from core.index.database import (
    DAMAGED,
    FILE_NAME,
    IndexFailed,
    describe_failed_read,
    lock_for_building,
    remove_index,
    report_damage,
)
from core.index.reader import IndexReader
from core.permissions.trust import TrustStore
from core.protocol.events import IndexStatus
from core.protocol.queries.files import SearchHit
from core.sessions.store import SessionStore
from core.text.counting import format_size
from core.text.display_names import display_name, to_one_line

if TYPE_CHECKING:
    from core.index.search.index_search import SearchRequest

Action = Literal["status", "build", "search", "clear"]

INDEX_USAGE = """\
agent-tui index [status [--json]] [DIR]
       agent-tui index build [DIR]
       agent-tui index search QUERY [--json] [--limit N] [DIR]
       agent-tui index clear [DIR]"""

INDEX_TEXT = """\
Search the project by meaning and words, or show, build or remove the index for
it. Running sessions keep it up to date; build and search update it first. A QUERY
is a question, a name or the text of an issue; - reads it from standard input."""

_SHOWN: Final = 10
_LISTED: Final = 50
_POLL_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexArguments(Arguments):
    front: ClassVar[Front] = "index"
    action: Action = "status"
    query: str = ""
    json: bool = False
    limit: int | None = None


def parse(argv: Sequence[str]) -> IndexArguments:
    """Parse the arguments of `agent-tui index`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui index", INDEX_USAGE, INDEX_TEXT)
    parser.add_argument("words", nargs="*", metavar="ACTION", help="status (default), build, search QUERY, clear; DIR")
    parser.add_argument("--json", action="store_true", help="places or status as JSON")
    parser.add_argument(
        "--limit", type=parse_count, metavar="N", help="number of results (default: 10, with --json 50)"
    )
    args = parser.parse_intermixed_args(argv)
    words: list[str] = args.words
    action: Action = "status"
    if words and words[0] in get_args(Action):
        action, words = words[0], words[1:]  # type: ignore[assignment]  # checked by `get_args`
    query = ""
    if action == "search":
        if not words or not words[0].strip():
            parser.error('search needs a question: agent-tui index search "where is the price rounded"')
        query, words = words[0], words[1:]
    if args.limit is not None and action != "search":
        parser.error("--limit works only with search")
    if args.json and action not in ("search", "status"):
        parser.error("--json works only with search and status")
    directory = parse_directory(words, parser)
    return IndexArguments(directory=directory, action=action, query=query, json=args.json, limit=args.limit)


def run(arguments: IndexArguments) -> int:
    """Carry out the action. Results go to standard output, progress to standard error."""
    database = SessionStore(arguments.directory).path / FILE_NAME
    match arguments.action:
        case "status":
            _show_status(database, arguments)
        case "clear":
            _clear(database)
        case "build":
            _bring_up_to_date(arguments.directory, database)
            _show_status(database, arguments)
        case "search":
            if not database.exists():
                _print_notice("this project has no index yet: building it first")
            _bring_up_to_date(arguments.directory, database)
            _search_and_print(database, arguments)
    return ExitCode.DONE


def _print_notice(text: str) -> None:
    sys.stderr.write(f"agent-tui: {text}\n")


def _show_status(database: Path, arguments: IndexArguments) -> None:
    reader = IndexReader(database)
    try:
        status, models = reader.read_status(), reader.count_by_models()
    except IndexFailed as problem:
        status, models = IndexStatus(problem=str(problem)), {}
    finally:
        reader.close()
    if arguments.json:
        write_json(msgspec.json.encode(status))
        return
    if status.state == "off":
        sys.stdout.write(f"{status.problem[:1].upper()}{status.problem[1:]} Build it: agent-tui index build\n")
        return
    parts = (database, database.with_name(f"{database.name}-wal"))  # the latest writes are in the write-ahead log
    size = sum(path.stat().st_size for path in parts if path.exists())
    model_lines = "".join(
        f"{to_one_line(model)}: {chunk_count:,} of these chunks\n" for model, chunk_count in models.items()
    )
    sys.stdout.write(f"{_describe(status)}\n{model_lines}{display_name(str(database))} ({format_size(size)})\n")


def _describe(status: IndexStatus) -> str:
    text = f"{status.state}: {status.indexed:,} of {status.files:,} files, {status.chunks:,} chunks"
    text += f", {status.embedded:,} with a vector"
    return text + (f" ({to_one_line(status.problem)})" if status.problem else "")


def _clear(database: Path) -> None:
    lock = lock_for_building(database)
    if lock is None:
        raise IndexFailed("a session is keeping this index up to date.", hint="Close it, or set index.enabled = false.")
    try:
        remove_index(database)
    finally:
        os.close(lock)
    sys.stdout.write("The index is removed; the next session or search rebuilds it.\n")


def _bring_up_to_date(directory: Path, database: Path) -> None:
    """Build what is missing, or wait for the process that builds it. Raises `IndexFailed`."""
    try:
        lock = lock_for_building(database)
        lock = _wait_for_other(database) if lock is None else lock
        if lock is not None:
            try:
                _build(directory, database)
            finally:
                os.close(lock)
    except (sqlite3.Error, OSError) as problem:
        raise IndexFailed(f"the index can't be built: {problem}.", hint=f"It is in {database.parent}.") from problem


def _build(directory: Path, database: Path) -> None:
    from core.index.builder import open_builder

    progress = _Progress()
    builder = open_builder(directory, database, progress.show)
    try:
        try:
            builder.sweep()
            builder.finish()
        except sqlite3.DatabaseError as problem:
            builder.recover(problem)
            builder.finish()
        if builder.status.state == "failed":
            raise IndexFailed(f"{builder.status.problem}.", hint=f"It is in {database.parent}.")
    finally:
        builder.close()
        progress.end()


def _wait_for_other(database: Path) -> int | None:
    """Wait until the session that builds the index has the words of all files. Returns the lock if that session ends
    earlier."""
    progress, reader = _Progress(), IndexReader(database)
    try:
        while True:
            with suppress(IndexFailed):  # the other session has not created it yet
                status = reader.read_status()
                if status.state != "building":
                    return None
                progress.show(status)
            if (lock := lock_for_building(database)) is not None:
                return lock
            time.sleep(_POLL_SECONDS)
    finally:
        reader.close()
        progress.end()


class _Progress:
    """Progress on one line of a terminal, or line by line in a log. Fast work prints nothing."""

    def __init__(self) -> None:
        self._next = time.monotonic() + 0.5
        self._shown = False
        self._is_terminal = sys.stderr.isatty()

    def show(self, status: IndexStatus) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + (0.2 if self._is_terminal else 2.0)
        self._shown = True
        sys.stderr.write(f"\r\x1b[2K{_describe(status)}" if self._is_terminal else f"{_describe(status)}\n")
        sys.stderr.flush()

    def end(self) -> None:
        if self._shown and self._is_terminal:
            sys.stderr.write("\r\x1b[2K")


def _search_and_print(database: Path, arguments: IndexArguments) -> None:
    """Search; rebuild an index that turns out to be damaged, and search again. Raises `IndexFailed`."""
    text = read_input(sys.stdin.buffer).decode("utf-8", "replace") if arguments.query == "-" else arguments.query
    limit = arguments.limit or (_LISTED if arguments.json else _SHOWN)
    try:
        hits = _search(database, arguments.directory, text, limit)
    except IndexFailed as failure:
        if failure.code != DAMAGED:
            raise
        _print_notice(f"{failure.message} It is being rebuilt")
        report_damage(database)
        _bring_up_to_date(arguments.directory, database)
        hits = _search(database, arguments.directory, text, limit)
    sys.stdout.write(_format_json(hits) if arguments.json else _format_text(hits))


def _search(database: Path, directory: Path, text: str, limit: int) -> list[SearchHit]:
    from core.index.search.index_search import IndexSearch, SearchRequest

    request = _add_route_vectors(SearchRequest(text=text, limit=limit), database.parent, directory)
    reader = IndexReader(database)
    try:
        return IndexSearch(reader.connect()).search(request)
    except sqlite3.Error as problem:
        raise describe_failed_read(problem) from problem
    finally:
        reader.close()


def _add_route_vectors(request: SearchRequest, store: Path, directory: Path) -> SearchRequest:
    """Return the request with vectors of the `embed` route's model. Returns it unchanged if the route names no model,
    or, with a message, if the model can't be reached."""
    try:
        trust = TrustStore(resolve_spelled(directory))
        files = trust.load_files()
        settings = load_with_notices(directory if trust.has_trust() else None, files.is_trusted).settings
        if not settings.resolve_route("embed").model:
            return request
        from core.engine.shared.remote_embeddings import embed_from_shell

        model, vectors, problem = asyncio.run(embed_from_shell(directory, store, settings, request.text))
    except IndexFailed:
        raise
    except AgentTuiError as failure:
        _print_notice(f"the built-in model is used: {failure.message}")
        return request
    if problem:
        _print_notice(problem)
    return replace(request, model=model, vectors=vectors)


def _format_json(hits: Sequence[SearchHit]) -> str:
    rows = [
        {"path": hit.path, "start": hit.start, "end": hit.end, "symbol": hit.symbol, "score": round(hit.score, 6)}
        for hit in hits
    ]
    return fit_json(msgspec.json.encode(rows).decode(), sys.stdout) + "\n"


def _format_text(hits: Sequence[SearchHit]) -> str:
    if not hits:
        return "Nothing found.\n"
    return "".join(
        f"{display_name(hit.path)}:{hit.start}-{hit.end}{'  ' + to_one_line(hit.symbol) if hit.symbol else ''}\n"
        for hit in hits
    )
