"""`agent-tui sessions`: list, show, search, rename, tag, export and delete the sessions of a workspace.

It also finds the session that a screen continues (`-c`, `--resume`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import ClassVar, Final, Literal, TextIO, get_args

import msgspec

from core import demo
from core.arguments import Arguments, Front, ScreenArguments
from core.cli.parsing import Parser, build_parser, parse_directory, parse_session_id
from core.cli.streams import fit_json, write_json
from core.errors import StateError
from core.exits import ExitCode
from core.protocol import commands as cmd
from core.protocol.queries import ExportFormat, IdleQuery, SessionInfo, TranscriptHit
from core.protocol.queries.sessions import list_forks
from core.protocol.renames import format_change_path, list_changes
from core.sessions.listing import find_latest_conversation, find_workspace, list_sessions, read_session_info
from core.sessions.log import read_log
from core.sessions.store import SessionStore
from core.state.fold import SHARED_STEPS, apply_event
from core.state.session import SessionState
from core.text.display_names import display_name, to_one_line
from core.transports.session_sockets import find_socket, list_reachable

_HEADS = ("SESSION", "LAST USED", "TURNS", "PENDING", "MODE", "TITLE")
_BOLD, _PLAIN = "\x1b[1m", "\x1b[22m"
Action = Literal["list", "show", "search", "tree", "rename", "tag", "export", "delete"]
SESSIONS_USAGE: Final = """\
agent-tui sessions [list [DIR] [--runs] | tree [DIR] | search WORDS... [--dir DIR]] [--json]
       agent-tui sessions show ID | rename ID TITLE | tag ID [TAG...] [--json]
       agent-tui sessions export ID [--format FORMAT] [--instance ID] [--output FILE]
       agent-tui sessions delete ID [--force]"""
SESSIONS_TEXT: Final = """\
List the sessions of a project, newest first, or search all their transcripts; show
one with its prompts and pending changes; rename, tag or export it, or delete it
with everything stored for it. Runs of -p with nothing pending are counted in one
line; --runs lists them."""
_MAX_LISTED = 10_000  # with --json
_MAX_PRINTED = 50
_MAX_HITS = 40
_OF_EXPORT: Final = (("format", "export"), ("instance", "export"))
_TAKES: Final = {"rename": "a session id and its new title", "tag": "a session id and its tags"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsArguments(Arguments):
    """`session`: the one to show, change or export. `title`: its new title; `tags` () = no tags. `words`: the search
    terms. `force`: delete it although something is pending. `runs`: also list runs of `-p`. `output`: a new file, None
    = standard output. `instance`: the id of a benchmark's task."""

    front: ClassVar[Front] = "sessions"
    action: Action = "list"
    session: str = ""
    title: str = ""
    tags: tuple[str, ...] = ()
    words: str = ""
    format: ExportFormat = "md"
    output: Path | None = None
    json: bool = False
    force: bool = False
    runs: bool = False
    instance: str = ""


def parse(argv: Sequence[str]) -> SessionsArguments:
    """Parse the arguments of `agent-tui sessions`; exits as `core.cli.arguments.parse` does."""
    parser = _build_sessions_parser()
    args = parser.parse_intermixed_args(argv)
    words: list[str] = args.words
    action: Action = "list"
    if words and words[0] in get_args(Action):
        action, words = words[0], words[1:]  # type: ignore[assignment]  # checked by `get_args`
    _check_options(action, args, parser)
    if action in {"list", "tree"}:
        return SessionsArguments(
            directory=parse_directory(words, parser), action=action, json=args.json, runs=args.runs
        )
    directory = parse_directory([args.dir] if args.dir else [], parser)
    if action == "search":
        if not (looked_for := " ".join(words).strip()):
            parser.error("search needs the words to look for")
        return SessionsArguments(directory=directory, action=action, words=looked_for, json=args.json)
    if not words or (action not in _TAKES and len(words) > 1):
        parser.error(f"{action} needs {_TAKES.get(action, 'a session id')}; agent-tui sessions lists them")
    title = " ".join(words[1:]).strip()
    if action == "rename" and not title:
        parser.error("rename needs a session id and its new title")
    return SessionsArguments(
        directory=directory,
        action=action,
        session=_parse_id(words[0], parser),
        title=title,
        tags=tuple(dict.fromkeys(_parse_tag(word, parser) for word in words[1:])) if action == "tag" else (),
        format=args.format or "md",
        output=args.output,
        instance=args.instance or "",
        json=args.json,
        force=args.force,
    )


def _build_sessions_parser() -> Parser:
    parser = build_parser("agent-tui sessions", SESSIONS_USAGE, SESSIONS_TEXT)
    actions = "list (default), show, search, tree, rename, tag, export or delete; DIR, WORDS or ID"
    parser.add_argument("words", nargs="*", metavar="ACTION", help=actions)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--runs", action="store_true", help="list: also runs of -p with nothing pending")
    parser.add_argument("--dir", metavar="DIR", help="search: the project (default: the current directory)")
    parser.add_argument(
        "--format",
        choices=get_args(ExportFormat),
        metavar="FORMAT",
        help="export: md (default), html, json, or for benchmarks atif, mini (mini-swe-agent) or preds (SWE-bench)",
    )
    parser.add_argument("--instance", metavar="ID", help="export: the task in mini and preds (default: the directory)")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="export: write to a new file")
    parser.add_argument("--force", action="store_true", help="delete: even with pending changes")
    return parser


def _check_options(action: Action, args: argparse.Namespace, parser: Parser) -> None:
    for name, owner in (("force", "delete"), ("runs", "list"), ("dir", "search"), *_OF_EXPORT):
        if getattr(args, name) and action != owner:
            parser.error(f"--{name} works only with {owner}")
    if args.output is not None and action != "export":
        parser.error("--output works only with export")


def _parse_id(word: str, parser: Parser) -> str:
    try:
        return parse_session_id(word)
    except argparse.ArgumentTypeError as problem:
        parser.error(str(problem))


def _parse_tag(word: str, parser: Parser) -> str:
    tag = word.removeprefix("#")
    if not 0 < len(tag) <= 40 or any(character.isspace() or character in ",#" for character in tag):
        parser.error(f"{word!r} is not a tag: one word of at most 40 characters, without commas")
    return tag


def run(arguments: SessionsArguments) -> int:
    """Carry out the action and print the result. Returns the exit code."""
    if (about_all := _ABOUT_ALL.get(arguments.action)) is not None:
        return about_all(arguments)
    return _ABOUT_ONE[arguments.action](arguments, _find_store(arguments))


def _print_list(arguments: SessionsArguments) -> int:
    directory = arguments.directory
    sessions = list_sessions(SessionStore(directory), limit=_MAX_LISTED)
    running = frozenset(list_reachable()) if any(session.locked for session in sessions) else frozenset[str]()
    if arguments.json:
        _print_json([msgspec.to_builtins(session) | {"running": session.id in running} for session in sessions])
        return ExitCode.DONE
    if not sessions:
        sys.stdout.write(f"No sessions of {display_name(str(directory))} yet. Start one: agent-tui\n")
        return ExitCode.DONE
    visible_sessions, runs = (list(sessions), []) if arguments.runs else split_runs(sessions)
    for line in format_table(visible_sessions[:_MAX_PRINTED], running) if visible_sessions else ():
        sys.stdout.write(f"{line}\n")
    if len(visible_sessions) > _MAX_PRINTED:
        sys.stdout.write(f"And {len(visible_sessions) - _MAX_PRINTED} older: agent-tui sessions --json\n")
    if runs:
        runs_hint = f"{len(runs)} {'run' if len(runs) == 1 else 'runs'} of -p: agent-tui sessions --runs\n"
        sys.stdout.write(f"And {runs_hint}" if visible_sessions else runs_hint)
    if running.intersection(session.id for session in sessions):
        sys.stdout.write("Show a running one: agent-tui attach SESSION\n")
    sys.stdout.write("Resume the last one: agent-tui -c; another one: agent-tui --resume SESSION\n")
    return ExitCode.DONE


def _print_tree(arguments: SessionsArguments) -> int:
    sessions = list_sessions(SessionStore(arguments.directory), limit=_MAX_LISTED)
    if arguments.json:
        _print_json(
            [{"id": session.id, "forkedFrom": session.forked_from} for session in sessions if session.forked_from]
        )
        return ExitCode.DONE
    lines = format_tree(sessions)
    sys.stdout.write("".join(f"{line}\n" for line in lines) or "No session here has been forked: /fork forks one.\n")
    return ExitCode.DONE


def _search(arguments: SessionsArguments) -> int:

    hits = search_transcripts(SessionStore(arguments.directory), arguments.words, limit=_MAX_HITS)
    if arguments.json:
        _print_json(list_plain(hits))
    elif hits:
        print_hits(hits, sys.stdout)
    else:
        sys.stdout.write(f"No session of {display_name(str(arguments.directory))} has all these words.\n")
    return ExitCode.DONE


def _print_json(value: object) -> None:
    write_json(json.dumps(value, indent=2, ensure_ascii=False))


def _find_store(arguments: SessionsArguments) -> SessionStore:
    """Find the store of a session: of this directory, else of any other project. Raises `StateError`."""
    store = SessionStore(arguments.directory)
    if store.has_session(arguments.session):
        return store
    workspace = find_workspace(arguments.session)
    if workspace is None:
        store.open(arguments.session)  # raises that there is none
    return SessionStore(workspace or arguments.directory)


def _print_session(arguments: SessionsArguments, store: SessionStore) -> int:
    session = arguments.session
    info = read_session_info(store.get_path(session))
    state = SessionState(session_id=session)
    with suppress(StateError):
        read_log(store.get_path(session) / "log.jsonl", partial(apply_event, state, table=SHARED_STEPS))
    pending = [
        f"{format_change_path(change)} (+{change.added} -{change.removed})" for change in list_changes(state.changes)
    ]
    prompts = [turn.prompt for turn in state.turns if turn.cause != "job"]
    if arguments.json:
        from core.transports.response import list_pending_bulks, list_pending_changes

        details = {"workspace": str(store.workspace), "prompts": prompts, "plan": state.current_plan_path}
        changes = msgspec.to_builtins((list_pending_changes(state), list_pending_bulks(state)))
        _print_json(msgspec.to_builtins(info) | details | {"pendingChanges": changes[0], "pendingBulks": changes[1]})
        return ExitCode.DONE
    rows = {
        "session": info.id,
        "title": format_title(info, is_running=find_socket(session) is not None),
        "project": display_name(str(store.workspace)),
        "begun": format_day(info.started),
        "last used": format_day(info.updated),
        "model": info.model or "-",
        "mode": info.mode or "-",
        "plan": display_name(state.current_plan_path) or "-",
    }
    lines = [f"{name:<10} {value}" for name, value in rows.items()]
    lines += [f"prompt {index:<3} {shorten(prompt)}" for index, prompt in enumerate(prompts, 1)]
    lines += [f"pending    {to_one_line(description)}" for description in pending]
    sys.stdout.write("\n".join(lines) + "\n")
    return ExitCode.DONE


def _rename(arguments: SessionsArguments, store: SessionStore) -> int:
    asyncio.run(_change(store, cmd.SessionRename(session=arguments.session, title=arguments.title)))
    return _report(arguments, {"id": arguments.session, "title": arguments.title}, "Renamed")


def _tag(arguments: SessionsArguments, store: SessionStore) -> int:
    asyncio.run(_change(store, cmd.SessionTag(session=arguments.session, tags=arguments.tags)))
    return _report(arguments, {"id": arguments.session, "tags": list(arguments.tags)}, "Tagged")


async def _change(store: SessionStore, command: cmd.SessionRename | cmd.SessionTag) -> None:
    """Change a session in the engine that has it open, else in its log. Raises `CommandRejected`, `StateError`."""
    from core.engine.session.closed_sessions import CLOSED_SESSION_COMMANDS

    if find_socket(command.session) is None:
        CLOSED_SESSION_COMMANDS[type(command)](store, command)
        return
    from core.engine import EngineOptions
    from core.transports.engines import Engines
    from core.transports.session_client import require_ack

    engines = Engines(EngineOptions(interactive=False, watch=False, preload=False))
    try:
        client = await engines.find(command.session)
        require_ack(await client.submit(command))
        await client.query(IdleQuery(session=command.session))
    finally:
        await engines.close()


def _export(arguments: SessionsArguments, store: SessionStore) -> int:
    from core.engine.export.documents import export_session, write_export

    answer = export_session(store.get_path(arguments.session), arguments.format, instance=arguments.instance)
    sys.stderr.writelines(f"{to_one_line(note)}\n" for note in answer.notes)
    if arguments.output is None:
        if arguments.format == "html":  # the document declares UTF-8
            sys.stdout.buffer.write(answer.text.encode())
        else:
            sys.stdout.write(answer.text if arguments.format == "md" else fit_json(answer.text, sys.stdout))
        return ExitCode.DONE
    path = write_export(answer, arguments.output)
    sys.stderr.write(f"Written: {display_name(str(path))}\n")
    return ExitCode.DONE


def _delete(arguments: SessionsArguments, store: SessionStore) -> int:
    from core.engine.session.closed_sessions import delete_session

    delete_session(store, arguments.session, is_confirmed=arguments.force)
    return _report(arguments, {"id": arguments.session, "deleted": True}, "Deleted")


def _report(arguments: SessionsArguments, payload: dict[str, object], label: str) -> int:
    if arguments.json:
        _print_json(payload)
    else:
        sys.stdout.write(f"{label}: {arguments.session}\n")
    return ExitCode.DONE


_ABOUT_ALL: Final[Mapping[Action, Callable[[SessionsArguments], int]]] = {
    "list": _print_list,
    "tree": _print_tree,
    "search": _search,
}


_ABOUT_ONE: Final[Mapping[Action, Callable[[SessionsArguments, SessionStore], int]]] = {
    "show": _print_session,
    "export": _export,
    "rename": _rename,
    "tag": _tag,
    "delete": _delete,
}


def choose_session(arguments: ScreenArguments) -> ScreenArguments:
    """Return the arguments with the session to resume filled in. Raises `StateError`: there is none, or it is in
    use."""
    if not (arguments.continue_last or arguments.resume):
        return arguments
    store, session = SessionStore(arguments.directory), arguments.resume or ""
    if arguments.demo and not (session := demo.find_latest_session()):
        raise StateError("there is no demo yet.", hint="Start one: agent-tui --demo", code="session_unknown")
    if session and not store.has_session(session) and (copy := demo.find_project(session)):
        arguments, store = replace(arguments, directory=copy), SessionStore(copy)
    session = store.resolve_id(session or find_latest_conversation(store))
    if find_socket(session) is None:  # otherwise the screen attaches to the engine that has it open
        store.open(session).close()
    return replace(arguments, continue_last=False, resume=session, demo=False)


def format_table(sessions: Sequence[SessionInfo], running: frozenset[str] = frozenset()) -> list[str]:
    """Format the table; `running`: the sessions that can be attached to."""
    rows = [
        (
            session.id,
            format_day(session.updated),
            str(session.turns),
            str(session.pending),
            session.mode or "-",
            format_title(session, is_running=session.id in running),
        )
        for session in sessions
    ]
    lines = [_HEADS, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def split_runs(sessions: Sequence[SessionInfo]) -> tuple[list[SessionInfo], list[SessionInfo]]:
    """Split sessions into those to list, and runs of `-p` in which nothing is pending."""
    runs = [
        session for session in sessions if session.unattended and not (session.pending or session.asked or session.tags)
    ]
    run_ids = {run.id for run in runs}
    return [session for session in sessions if session.id not in run_ids], runs


def format_tree(sessions: Sequence[SessionInfo]) -> list[str]:
    """Format a line for every fork, indented below its origin; sessions without forks are left out."""
    return [f"{lead}{session.id}  {format_title(session)}" for lead, session in list_forks(sessions)]


def format_day(milliseconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(milliseconds / 1000))


def format_title(session: SessionInfo, *, is_running: bool = False) -> str:
    """Format the title with notes on the state of the session."""
    notes = ["running" if is_running else "open now"] * session.locked + [session.problem] * bool(session.problem)
    notes += [f"{session.asked} waiting for an answer"] * bool(session.asked)
    tags = "".join(f" #{display_name(tag)}" for tag in session.tags)
    return shorten(session.title or "Untitled") + tags + "".join(f" ({shorten(note)})" for note in notes)


def shorten(text: str) -> str:
    """Return the first 80 characters on one line, since titles come from prompts."""
    return to_one_line(text)[:80]


def search_transcripts(store: SessionStore, words: str, *, limit: int) -> tuple[TranscriptHit, ...]:
    """Search the transcripts, after reading everything new in them. Raises `StateError`."""
    from core.sessions.transcript_search import TranscriptIndex

    with TranscriptIndex(store) as index:
        if (unread := index.refresh(seconds=1)) and sys.stderr.isatty():
            sys.stderr.write(f"Indexing {unread} transcripts for the first time…\n")
        index.refresh()
        return index.search(words, limit=limit)


def print_hits(hits: Sequence[TranscriptHit], stream: TextIO) -> None:
    """Print hits for people, with the matches in bold on a terminal."""
    is_bold = stream.isatty()
    for session, session_hits in groupby(hits, key=lambda hit: hit.session):
        rows = list(session_hits)
        stream.write(f"{session}  {format_day(rows[0].at)}  {shorten(rows[0].title or 'Untitled')}\n")
        stream.writelines(f"  {row.kind:<8} {_format_text(row, is_bold=is_bold)}\n" for row in rows)
    if hits:
        first = next((hit for hit in hits if hit.place), hits[0])
        stream.write(f"Open one at its match: agent-tui {_format_options(first)}\n")


def _format_text(hit: TranscriptHit, *, is_bold: bool) -> str:
    if not is_bold:
        return to_one_line(hit.text)
    return "".join(f"{_BOLD}{part}{_PLAIN}" if is_match else part for part, is_match in split_marked(hit))


def split_marked(hit: TranscriptHit) -> Iterator[tuple[str, bool]]:
    """Yield the text of a hit in pieces, with True for every piece that is a match."""
    offset = 0
    for start, end in hit.marks:
        yield to_one_line(hit.text[offset:start]), False
        yield to_one_line(hit.text[start:end]), True
        offset = end
    yield to_one_line(hit.text[offset:]), False


def list_plain(hits: Sequence[TranscriptHit]) -> list[object]:
    """Return hits as plain data, with the options that open them."""
    return [msgspec.to_builtins(hit) | {"open": _format_options(hit)} for hit in hits]


def _format_options(hit: TranscriptHit) -> str:
    """Return the options that open a session at a hit."""
    return f"--resume {hit.session}" + (f" --at {hit.place}" if hit.place else "")
