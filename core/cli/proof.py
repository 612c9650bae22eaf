"""`agent-tui proof`: run the project's check over variants of the pending changes, and print what it says of each."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from core.arguments import Front
from core.cli.parsing import build_parser, parse_directory, parse_session_id
from core.cli.review import find_session_to_review
from core.cli.session_changes import ChangesArguments, SessionChanges, open_changes, print_notice, relate_path
from core.cli.streams import escape_hidden, write_json
from core.errors import CommandRejected
from core.exits import ExitCode
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.renames import list_changes, select_named
from core.protocol.review import Change
from core.state.proof_text import format_proof, has_doubts, list_proof_rows
from core.state.session import SessionState
from core.transports.response import build_report
from core.transports.session_client import prove_pending

PROOF_USAGE: Final = """\
agent-tui proof [PATH ...] [--check COMMAND] [--seconds N] [--accept]
                       [--dir DIR] [--session ID] [--json]"""

PROOF_TEXT: Final = """\
Run the project's check over the pending changes, and again without each of them,
and print for each hunk whether a test notices. Nothing is written to the project,
nothing leaves the machine. The check is the last one of tests that the session ran,
one that commands.checks names, or COMMAND. PATH limits it to files and directories.
With --accept, hunks that a test checks, and those that need none, are accepted
then: never tests, files that decide how they run, deletions or protected files."""

PROOF_CODES: Final = """\
exit codes:
  0   done: nothing is worth a look (also when nothing is pending)
  1   failed; the message says why
  2   wrong arguments
  4   a hunk is worth a look, or the check proves nothing
  130 stopped; what was learned is printed, and kept for the next time"""

NOTHING: Final = "nothing pending review."


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofArguments(ChangesArguments):
    """`paths`: as they were typed; `check` "" = the session's; `seconds` 0 = as configured."""

    front: ClassVar[Front] = "proof"
    paths: tuple[str, ...] = ()
    check: str = ""
    seconds: float = 0.0
    accepts: bool = False


def parse(argv: Sequence[str]) -> ProofArguments:
    """Parse the arguments of `agent-tui proof`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui proof", PROOF_USAGE, PROOF_TEXT, PROOF_CODES)
    parser.add_argument("paths", nargs="*", metavar="PATH", help="only these files and directories")
    parser.add_argument("--check", default="", metavar="COMMAND", help="the command that checks the project")
    parser.add_argument("--seconds", type=float, default=0.0, metavar="N", help="the limit after the first run")
    parser.add_argument("--accept", action="store_true", help="accept what is proven")
    parser.add_argument("--dir", default="", metavar="DIR", help="the project (default: the current directory)")
    parser.add_argument("--session", type=parse_session_id, metavar="ID", help="the session (default: the last one)")
    parser.add_argument("--json", action="store_true", help="print the evidence as JSON")
    args = parser.parse_intermixed_args(argv)
    if args.seconds < 0:
        parser.error("--seconds needs a number above 0")
    return ProofArguments(
        directory=parse_directory([args.dir] if args.dir else [], parser),
        session=args.session or "",
        json=args.json,
        paths=tuple(args.paths),
        check=args.check,
        seconds=args.seconds,
        accepts=args.accept,
    )


def run(arguments: ProofArguments) -> int:
    """Prove, and print. Raises `AgentTuiError`."""
    return asyncio.run(_run(arguments))


async def _run(arguments: ProofArguments) -> int:
    session = arguments.session or find_session_to_review(arguments.directory)
    if not session:
        print_notice(f"agent-tui: {NOTHING}")
        return ExitCode.DONE
    async with open_changes(arguments, session) as work:
        return await _prove(work, arguments)


async def _prove(work: SessionChanges, arguments: ProofArguments) -> int:
    chosen = _choose_changes(work.state, arguments)
    if not chosen:
        print_notice(f"agent-tui: {NOTHING}")
        return ExitCode.DONE
    paths = tuple(change.path for change in chosen) if arguments.paths else ()
    request = cmd.ChangesProve(session=work.session, check=arguments.check, paths=paths, seconds=arguments.seconds)
    loop, stop = asyncio.get_running_loop(), cmd.ProofStop(session=work.session)
    loop.add_signal_handler(signal.SIGINT, lambda: asyncio.ensure_future(work.engine.submit(stop)))
    try:
        end = await prove_pending(work.engine, work.view, request)
    finally:
        loop.remove_signal_handler(signal.SIGINT)
    return await _report(work, arguments, chosen, end)


async def _report(
    work: SessionChanges, arguments: ProofArguments, chosen: Sequence[Change], end: ev.ProofFinished
) -> int:
    proof = work.state.review.proof
    if arguments.json:
        write_json(json.dumps(build_proof_record(work.state, chosen, end), ensure_ascii=False))
    else:
        sys.stdout.write("".join(f"{escape_hidden(line)}\n" for line in format_proof(proof, chosen)))
    sys.stdout.flush()
    doubtful = has_doubts(proof, chosen)
    if end.reason and (proof.check is None or end.reason != proof.check.problem):
        print_notice(f"agent-tui: {end.reason}")
    if end.stopped:
        return ExitCode.INTERRUPTED
    if arguments.accepts:
        before = set(work.state.changes)
        await work.carry_out(cmd.ProvenAccept(session=work.session))
        for path in sorted(before - set(work.state.changes)):
            print_notice(f"accepted  {path}")
    has_check = proof.check is not None and bool(proof.check.command)
    return ExitCode.FAILED if not has_check else ExitCode.REFUSED if doubtful else ExitCode.DONE


def _choose_changes(state: SessionState, arguments: ProofArguments) -> list[Change]:
    """Return the pending changes that the arguments name, all without any. Raises `CommandRejected`."""
    changes = list_changes(state.changes)
    if not arguments.paths:
        return list(changes)
    patterns = [relate_path(path, arguments.directory) for path in arguments.paths]
    for pattern, path in zip(patterns, arguments.paths, strict=True):
        if not Path(pattern).is_absolute() and select_named(changes, [pattern]):
            continue
        raise CommandRejected(f"nothing is pending in {path}.", code="change_unknown")
    return select_named(changes, patterns)


def build_proof_record(state: SessionState, changes: Sequence[Change], end: ev.ProofFinished) -> dict[str, Any]:
    """Build the JSON of a proof: the check, each hunk with its evidence in words, and why something is unknown."""
    proof = state.review.proof
    hunks = [
        {
            "path": row.change.path,
            **msgspec.to_builtins(build_report(state, row)),
            "evidence": msgspec.to_builtins(proof.hunks[row.change.path, row.hunk.id]),
        }
        for row in list_proof_rows(proof, changes)
    ]
    check = msgspec.to_builtins(proof.check) if proof.check is not None else None
    return {"check": check, "hunks": hunks, "reason": end.reason}
