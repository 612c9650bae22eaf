"""`agent-tui sessions`: the sessions of a workspace as a table, one of them in whole, renamed or deleted; and the one
that a screen is to go on with."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Final, Literal, get_args

import msgspec

from core import demo
from core.cli.arguments import ScreenArguments
from core.cli.parsing import Arguments, Front, build_parser, parse_directory, parse_session_id
from core.errors import StateError
from core.exits import ExitCode
from core.protocol import commands as cmd
from core.protocol.queries import IdleQuery, SessionInfo
from core.protocol.renames import format_change_path, list_changes
from core.sessions.listing import find_workspace, list_sessions
from core.sessions.log import read_log
from core.sessions.store import SessionStore
from core.state.fold import SHARED_STEPS, apply_event
from core.state.session import SessionState
from core.text.display_names import display_name, to_one_line
from core.transports.attach.socket_places import find_socket, list_reachable

Action = Literal["list", "show", "rename", "delete"]
SESSIONS_USAGE: Final = "agent-tui sessions [list [DIR] | show ID | rename ID TITLE | delete ID [--force]] [--json]"
SESSIONS_TEXT: Final = """\
List the sessions of a project, newest first; show one with its prompts and
what waits in it, rename it, or delete it with all that is kept of it."""
_MAX_LISTED = 10_000  # with --json
_MAX_PRINTED = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsArguments(Arguments):
    """`session`: the one that is shown, renamed or deleted. `title`: its new one. `force`: also what waits in it."""

    front: ClassVar[Front] = "sessions"
    action: Action = "list"
    session: str = ""
    title: str = ""
    json: bool = False
    force: bool = False


def parse(argv: Sequence[str]) -> SessionsArguments:
    """Check the words behind `agent-tui sessions`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui sessions", SESSIONS_USAGE, SESSIONS_TEXT)
    parser.add_argument("words", nargs="*", metavar="ACTION", help="list (default), show, rename or delete; DIR or ID")
    parser.add_argument("--json", action="store_true", help="the answer, as JSON")
    parser.add_argument("--force", action="store_true", help="delete: also a session in which edits wait for a review")
    said = parser.parse_intermixed_args(argv)
    words: list[str] = said.words
    action: Action = "list"
    if words and words[0] in get_args(Action):
        action, words = words[0], words[1:]  # type: ignore[assignment]  # it is one of them
    if said.force and action != "delete":
        parser.error("--force only goes with delete")
    if action == "list":
        return SessionsArguments(directory=parse_directory(words, parser), json=said.json)
    if not words or (action != "rename" and len(words) > 1):
        parser.error(f"{action} takes the id of a session; agent-tui sessions lists them")
    title = " ".join(words[1:]).strip()
    if action == "rename" and not title:
        parser.error("rename takes the id of a session and its new title")
    try:
        session = parse_session_id(words[0])
    except argparse.ArgumentTypeError as problem:
        parser.error(str(problem))
    here = parse_directory([], parser)
    return SessionsArguments(
        directory=here, action=action, session=session, title=title, json=said.json, force=said.force
    )


def run(arguments: SessionsArguments) -> int:
    """Do what is asked for, and print what came of it. Returns the exit code."""
    if arguments.action == "list":
        return _print_list(arguments)
    store = _find_store(arguments)
    match arguments.action:
        case "show":
            return _print_session(arguments, store)
        case "rename":
            asyncio.run(_rename(arguments))
            return _report(arguments, {"id": arguments.session, "title": arguments.title}, "Renamed")
        case "delete":
            return _delete(arguments, store)


def _print_list(arguments: SessionsArguments) -> int:
    directory = arguments.directory
    found = list_sessions(SessionStore(directory), limit=_MAX_LISTED if arguments.json else _MAX_PRINTED)
    running = frozenset(list_reachable()) if any(each.locked for each in found) else frozenset[str]()
    if arguments.json:
        _print_json([msgspec.to_builtins(each) | {"running": each.id in running} for each in found])
        return ExitCode.DONE
    if not found:
        sys.stdout.write(f"No sessions of {display_name(str(directory))} yet. Start one: agent-tui\n")
        return ExitCode.DONE
    for line in _format_table(found, running):
        sys.stdout.write(f"{line}\n")
    if running.intersection(each.id for each in found):
        sys.stdout.write("Show one that runs: agent-tui attach SESSION\n")
    sys.stdout.write("Go on with the last one: agent-tui -c; with another one: agent-tui --resume SESSION\n")
    return ExitCode.DONE


def _print_json(value: object) -> None:
    from core.cli.print_mode.printer import escape_hidden  # a screen that goes on with a session needs none of it

    sys.stdout.write(escape_hidden(json.dumps(value, indent=2, ensure_ascii=False)) + "\n")


def _find_store(arguments: SessionsArguments) -> SessionStore:
    """Find the store of a session: that of this directory, else of whichever project it is. Raises `StateError`."""
    here = SessionStore(arguments.directory)
    if here.has_session(arguments.session):
        return here
    workspace = find_workspace(arguments.session)
    if workspace is None:
        here.open(arguments.session)  # which says that there is none
    return SessionStore(workspace or arguments.directory)


def _find_info(store: SessionStore, session: str) -> SessionInfo:
    found = list_sessions(store, limit=sys.maxsize)
    return next(each for each in found if each.id == session)


def _print_session(arguments: SessionsArguments, store: SessionStore) -> int:
    session = arguments.session
    info, state = _find_info(store, session), SessionState(session_id=session)
    with suppress(StateError):
        read_log(store.sessions_path / session / "log.jsonl", partial(apply_event, state, table=SHARED_STEPS))
    pending = [f"{format_change_path(each)} (+{each.added} -{each.removed})" for each in list_changes(state.changes)]
    prompts = [turn.prompt for turn in state.turns]
    if arguments.json:
        from core.transports.response import list_pending_bulks, list_pending_changes

        told = {"workspace": str(store.workspace), "prompts": prompts, "plan": state.current_plan_path}
        changes = msgspec.to_builtins((list_pending_changes(state), list_pending_bulks(state)))
        _print_json(msgspec.to_builtins(info) | told | {"pendingChanges": changes[0], "pendingBulks": changes[1]})
        return ExitCode.DONE
    rows = {
        "session": info.id,
        "title": _format_title(info, is_running=find_socket(session) is not None),
        "project": display_name(str(store.workspace)),
        "begun": _format_day(info.started),
        "last used": _format_day(info.updated),
        "model": info.model or "-",
        "mode": info.mode or "-",
        "plan": display_name(state.current_plan_path) or "-",
    }
    lines = [f"{name:<10} {value}" for name, value in rows.items()]
    lines += [f"prompt {at:<3} {_shorten(each)}" for at, each in enumerate(prompts, 1)]
    lines += [f"waits      {to_one_line(each)}" for each in pending]
    sys.stdout.write("\n".join(lines) + "\n")
    return ExitCode.DONE


async def _rename(arguments: SessionsArguments) -> None:
    """Rename a session through an engine, as a screen does: the one that has it open. Raises `CommandRejected`."""
    from core.engine import EngineOptions
    from core.transports.engines import Engines
    from core.transports.session_view import require_ack

    engines = Engines(EngineOptions(interactive=False, watch=False, preload=False))
    try:
        client = await engines.find(arguments.session)
        require_ack(await client.submit(cmd.SessionRename(session=arguments.session, title=arguments.title)))
        await client.query(IdleQuery(session=arguments.session))
    finally:
        await engines.close()


def _delete(arguments: SessionsArguments, store: SessionStore) -> int:
    info = _find_info(store, arguments.session)
    if info.pending and not arguments.force:
        waiting = f"{info.pending} {'edit waits' if info.pending == 1 else 'edits wait'} in it for your review."
        raise StateError(f"{arguments.session} was not deleted: {waiting}", hint="With --force they go with it.")
    directory = store.open(arguments.session)  # the lock says that nobody works in it
    directory.discard()
    directory.close()
    return _report(arguments, {"id": arguments.session, "deleted": True}, "Deleted")


def _report(arguments: SessionsArguments, told: dict[str, object], done: str) -> int:
    if arguments.json:
        _print_json(told)
    else:
        sys.stdout.write(f"{done}: {arguments.session}\n")
    return ExitCode.DONE


def _format_table(sessions: tuple[SessionInfo, ...], running: frozenset[str] = frozenset()) -> list[str]:
    rows = [
        (
            each.id,
            _format_day(each.updated),
            str(each.turns),
            str(each.pending),
            each.mode or "-",
            _format_title(each, is_running=each.id in running),
        )
        for each in sessions
    ]
    heads = ("SESSION", "LAST USED", "TURNS", "PENDING", "MODE", "TITLE")
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(5)]
    return [
        f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]:>{widths[3]}}  "
        f"{row[4]:<{widths[4]}}  {row[5]}"
        for row in (heads, *rows)
    ]


def _format_day(milliseconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(milliseconds / 1000))


def _format_title(session: SessionInfo, *, is_running: bool = False) -> str:
    notes = ["running" if is_running else "open now"] * session.locked + [session.problem] * bool(session.problem)
    return _shorten(session.title or "Untitled") + "".join(f" ({_shorten(note)})" for note in notes)


def _shorten(text: str) -> str:
    """Return the first 80 characters on one line: titles come from prompts."""
    return to_one_line(text)[:80]


def choose_session(arguments: ScreenArguments) -> ScreenArguments:
    """Return the arguments with the session to resume named. Raises `StateError`: there is none, or it is in use."""
    if not (arguments.continue_last or arguments.resume):
        return arguments
    store, session = SessionStore(arguments.directory), arguments.resume or ""
    if arguments.demo and not (session := demo.find_latest_session()):
        raise StateError("no demo was begun yet.", hint="Start one: agent-tui --demo", code="session_unknown")
    if session and not store.has_session(session) and (copy := demo.find_project(session)):
        arguments, store = replace(arguments, directory=copy), SessionStore(copy)
    session = store.resolve_id(session)
    if find_socket(session) is None:  # else the screen attaches to the engine that has it open
        store.open(session).close()
    return replace(arguments, continue_last=False, resume=session, demo=False)
