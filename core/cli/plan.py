"""`agent-tui plan`: list, show and check the plans of a project, or set the status of a todo."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import msgspec

from core.arguments import Arguments, Front
from core.cli.parsing import build_parser, parse_directory
from core.cli.streams import fit_json
from core.config.loading import load_with_notices
from core.errors import CommandRejected
from core.exits import ExitCode
from core.filesystem.name_spelling import resolve_spelled
from core.permissions.trust import TrustStore
from core.plans.plan_store import PlanStore
from core.plans.todo_graph import check_not_blocked, find_blockers, find_ready, list_problems
from core.protocol.documents import Plan, Todo, TodoStatus
from core.protocol.events import Envelope
from core.records import convert
from core.text.counting import count
from core.text.display_names import display_name, to_one_line
from core.text.exposure import expose_line, expose_text
from core.text.well_formed import encode_record
from core.workspace import Workspace
from core.workspace.file_names import PLAN_SUFFIX
from core.workspace.plan_folder import PlanFolder

PLAN_USAGE = """\
agent-tui plan list [--json] [-C DIR]
       agent-tui plan show [FILE] [--json] [-C DIR]
       agent-tui plan check [FILE] [-C DIR]
       agent-tui plan set FILE TODO STATUS [--force] [-C DIR]"""

PLAN_TEXT = """\
List, show or check the plans of a project, or set the status of a todo. Plans are
files in .cursor/plans, or where the setting `plans.directory` says. FILE is a path,
or the beginning of a name there; leave it out if there is only one.

  list    all plans with their progress
  show    one plan: its todos, which are ready and what the others depend on
  check   all errors in a plan file, with their lines
  set     set the status of a todo: pending, in_progress, completed or cancelled;
          a todo with a `verify` command is completed only if that passes,
          sandboxed, on the pending changes. A todo that depends on open ones
          can't start; --force completes it anyway"""

PLAN_CODES = """\
exit codes:
  0   done
  1   the plan has errors (check), the todo's command did not pass (set), or
      it failed otherwise; the message says why
  2   wrong arguments"""

PLAN_WORDS = {
    "list": (0, 0, "list [--json]"),
    "show": (0, 1, "show [FILE] [--json]"),
    "check": (0, 1, "check [FILE]"),
    "set": (3, 3, "set FILE TODO STATUS"),
}

MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanArguments(Arguments):
    """`words`: the plan file, and for `set` the todo and its status. `force`: set it although the todo is blocked."""

    front: ClassVar[Front] = "plan"
    action: str
    words: tuple[str, ...] = ()
    json: bool = False
    force: bool = False


def parse(argv: Sequence[str]) -> PlanArguments:
    """Parse the arguments of `agent-tui plan`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui plan", PLAN_USAGE, PLAN_TEXT, PLAN_CODES)
    parser.add_argument("action", choices=tuple(PLAN_WORDS), metavar="ACTION", help="list, show, check or set")
    parser.add_argument("words", nargs="*", metavar="WORD", help="the file; with set also the todo and its status")
    parser.add_argument("--json", action="store_true", help="list and show: as JSON")
    parser.add_argument("--force", action="store_true", help="set: complete a todo although it depends on open ones")
    parser.add_argument("-C", dest="directory", metavar="DIR", help="the project (default: the current directory)")
    args = parser.parse_intermixed_args(argv)
    action, words = args.action, tuple(args.words)
    minimum, maximum, usage = PLAN_WORDS[action]
    if not minimum <= len(words) <= maximum:
        parser.error(f"expected: agent-tui plan {usage}")
    if action == "set" and words[2] not in MARKS:
        parser.error(f"{words[2]!r} is not a status; use {', '.join(MARKS)}")
    if args.json and action not in {"list", "show"}:
        parser.error("--json works only with list and show")
    if args.force and words[2:] != ("completed",):
        parser.error("--force works only with set FILE TODO completed")
    directory = parse_directory([args.directory] if args.directory else [], parser)
    return PlanArguments(directory=directory, action=action, words=words, json=args.json, force=args.force)


def run(arguments: PlanArguments) -> int:
    """Carry out `arguments.action`. Returns `ExitCode.FAILED` if a check finds faults, or a todo is not proved."""
    workspace = Workspace(arguments.directory)
    store = PlanStore(PlanFolder(workspace, _find_directory(workspace)))
    if arguments.action == "list":
        return _list(store, json=arguments.json)
    path = find_plan(store, arguments.words[0] if arguments.words else "")
    match arguments.action:
        case "check":
            return _check(store, path)
        case "set":
            return _set(arguments, store, path)
        case _:
            return _show(store.load(path), json=arguments.json)


def _find_directory(workspace: Workspace) -> str:
    """Return the configured directory of plans; the project's configuration counts only if it is trusted."""
    trust = TrustStore(workspace.root)
    if not trust.has_trust():
        return load_with_notices().settings.plans.directory
    return load_with_notices(workspace.root, trust.load_files().is_trusted).settings.plans.directory


def find_plan(store: PlanStore, name: str) -> str:
    """Find a plan by its path, its file name, a prefix of that, or "" for the only one."""
    name_path = Path(name).expanduser()
    if name and (len(name_path.parts) > 1 or name_path.is_file()):
        return store.to_path(str(resolve_spelled(name_path)))
    listing = store.list_plans()
    known_paths = [*(plan.path for plan in listing.plans), *(broken_plan.path for broken_plan in listing.broken)]
    fitting = [path for path in known_paths if path.rpartition("/")[2].startswith(name)]
    exact = [path for path in fitting if path.rpartition("/")[2] in {name, f"{name}{PLAN_SUFFIX}"}]
    if len(exact or fitting) == 1:
        return (exact or fitting)[0]
    names = ", ".join(path.rpartition("/")[2] for path in sorted(fitting or known_paths)) or "none"
    subject = f"{len(fitting)} plans" if fitting else "no plan"
    predicate = f" start with {name!r}" if name and fitting else f" is called {name!r}" if name else " here"
    raise CommandRejected(f"{subject}{predicate}.", hint=f"There are: {names}.", code="plan_unknown")


def _list(store: PlanStore, *, json: bool) -> int:
    listing = store.list_plans()
    if json:
        _write(_encode_json(listing))
        return ExitCode.DONE
    for plan in listing.plans:
        faults = list_problems(plan.todos)
        trouble = f"   {count('fault', len(faults))}: agent-tui plan check" if faults else ""
        _write(f"{display_name(plan.path)}  {_format_progress(plan)}  {to_one_line(plan.name)}{trouble}")
    for broken_plan in listing.broken:
        _write(f"broken: {to_one_line(broken_plan.problem)}")
    if not listing.plans and not listing.broken:
        _write(f"there is no plan in {display_name(store.place)}.")
    return ExitCode.DONE


def _format_progress(plan: Plan) -> str:
    completed_count = sum(todo.status == "completed" for todo in plan.todos)
    return f"{completed_count}/{sum(todo.status != 'cancelled' for todo in plan.todos)}"


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A plan as `--json` prints it, with the todos that are ready and what blocks the others."""

    plan: Plan
    ready: tuple[str, ...]
    blocked_by: dict[str, tuple[str, ...]]
    faults: tuple[str, ...]


def _show(plan: Plan, *, json: bool) -> int:
    blockers, free = find_blockers(plan.todos), [todo.id for todo in find_ready(plan.todos)]
    if json:
        report = Shown(plan=plan, ready=tuple(free), blocked_by=blockers, faults=list_problems(plan.todos))
        _write(_encode_json(report))
        return ExitCode.DONE
    _write(f"{to_one_line(plan.name)}  {_format_progress(plan)}\n{display_name(plan.path)}")
    if plan.overview:
        _write(expose_text(plan.overview).replace("\n", "\n  "))
    for todo in plan.todos:
        _write(_format_row(todo, blockers.get(todo.id, ()), is_ready=todo.id in free))
    if plan.body:
        _write(f"\n{expose_text(plan.body)}")
    return ExitCode.DONE


def _format_row(todo: Todo, blockers: tuple[str, ...], *, is_ready: bool) -> str:
    suffix = f"  (depends on {', '.join(map(display_name, blockers))})" if blockers else "  (ready)" if is_ready else ""
    proof = f"\n        verify: {expose_line(todo.verify)}" if todo.verify else ""
    return f"{MARKS[todo.status]} {display_name(todo.id)}: {to_one_line(todo.content)}{suffix}{proof}"


def _check(store: PlanStore, path: str) -> int:
    faults = store.find_faults(path)
    for fault in faults:
        hint = f" {fault.hint}" if fault.hint else ""
        _write(f"{display_name(path)}:{fault.line}: {to_one_line(fault.text + hint)}")
    if not faults:
        _write(f"{display_name(path)}: no problems.")
    return ExitCode.FAILED if faults else ExitCode.DONE


def _set(arguments: PlanArguments, store: PlanStore, path: str) -> int:
    key, status = arguments.words[1], convert(arguments.words[2], TodoStatus)
    todos = store.load(path).todos
    todo = next((candidate for candidate in todos if candidate.id == key), None)
    check_not_blocked(todos, key, status, anyway=arguments.force)
    if todo is not None and status == "completed" != todo.status and todo.verify:
        asyncio.run(_complete_verified(arguments, path, todo))
    plan = store.set_todo(path, key, status)
    free = ", ".join(display_name(todo.id) for todo in find_ready(plan.todos)) or "none"
    _write(f"{display_name(key)}: {status}. Ready: {free}.")
    return ExitCode.DONE


async def _complete_verified(arguments: PlanArguments, path: str, todo: Todo) -> None:
    """Complete a todo if its check passes over the pending changes. Raises `CommandRejected` if it fails."""
    from core.cli.review import find_session_to_review
    from core.engine import Engine, EngineOptions
    from core.protocol import commands as cmd
    from core.protocol.events import ErrorRaised, PlanUpdated
    from core.transports.session_client import SessionView, require_ack

    session_id, outcomes = find_session_to_review(arguments.directory), list[ErrorRaised | PlanUpdated]()

    def take_in(envelope: Envelope) -> None:
        if isinstance(envelope.event, ErrorRaised | PlanUpdated):
            outcomes.append(envelope.event)

    engine = Engine(arguments.directory, options=EngineOptions(interactive=False, watch=False, preload=False))
    try:
        open_command = cmd.SessionResume(session=session_id) if session_id else cmd.SessionOpen(mode="plan")
        session = require_ack(await engine.submit(open_command)).session
        view = SessionView(engine, session, take_in)
        await view.settle()
        outcomes.clear()
        set_command = cmd.TodoSet(session=session, plan=path, id=todo.id, status="completed", anyway=arguments.force)
        require_ack(await engine.submit(set_command))
        await view.wait_until(lambda: bool(outcomes))
        if not session_id:
            await engine.submit(cmd.SessionClose(session=session, discard=True))
    finally:
        await engine.close()
    if isinstance(end := outcomes[-1], ErrorRaised):
        raise CommandRejected(end.message, hint=end.hint, code=end.code)


def _write(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _encode_json(record: msgspec.Struct) -> str:
    return fit_json(msgspec.json.format(encode_record(record), indent=2).decode(), sys.stdout)
