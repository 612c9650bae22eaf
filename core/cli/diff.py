"""`agent-tui diff`: print pending or accepted changes as a patch that `git apply` takes, exact to the byte."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Literal

from core.arguments import Front
from core.cli.parsing import build_parser, parse_directory, parse_session_id
from core.cli.review import find_session_to_review
from core.cli.session_changes import (
    ChangesArguments,
    SessionChanges,
    open_changes,
    print_json,
    print_notice,
    relate_path,
)
from core.exits import ExitCode
from core.filesystem.name_spelling import resolve_spelled
from core.patterns import compile_lazily
from core.protocol import queries as q
from core.sessions.store import SessionStore
from core.text.display_names import display_name, to_one_line
from core.text.exposure import expose_full_line

DIFF_USAGE: Final = "agent-tui diff [PATH ...] [--accepted] [--dir DIR] [--session ID] [--json]"

DIFF_TEXT: Final = """\
Print all pending changes as one patch. `agent-tui diff | git apply` applies it to
another work tree in the same state: binary files, modes, links and renames too.
PATH limits it to files and directories of the project. With --accepted, print what
was accepted since the last commit and is not committed yet."""

DIFF_CODES: Final = """\
exit codes:
  0   done (also when there is nothing)
  1   failed; the message says why
  2   wrong arguments
  4   something is missing from the patch; the messages say what"""


_SIGNS: Final = frozenset("+- ")
_BYTE: Final = compile_lazily("‹U\\+(DC[89A-F][0-9A-F])(×[0-9]+|)›")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffArguments(ChangesArguments):
    """`paths`: as they were typed."""

    front: ClassVar[Front] = "diff"
    paths: tuple[str, ...] = ()
    which: Literal["pending", "accepted"] = "pending"


def parse(argv: Sequence[str]) -> DiffArguments:
    """Parse the arguments of `agent-tui diff`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui diff", DIFF_USAGE, DIFF_TEXT, DIFF_CODES)
    parser.add_argument("paths", nargs="*", metavar="PATH", help="only these files and directories")
    parser.add_argument("--accepted", action="store_true", help="print what was accepted and is not committed yet")
    parser.add_argument("--dir", default="", metavar="DIR", help="the project (default: the current directory)")
    parser.add_argument("--session", type=parse_session_id, metavar="ID", help="the session (default: the last one)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    args = parser.parse_intermixed_args(argv)
    directory = parse_directory([args.dir] if args.dir else [], parser)
    for path in args.paths:
        if Path(path).is_dir() and not resolve_spelled(Path(path)).is_relative_to(resolve_spelled(directory)):
            parser.error(f"{path} is outside the project {directory}; for another project use --dir {path}")
    return DiffArguments(
        directory=directory,
        session=args.session or "",
        json=args.json,
        paths=tuple(args.paths),
        which="accepted" if args.accepted else "pending",
    )


def run(arguments: DiffArguments) -> int:
    """Print the patch. Raises `AgentTuiError`."""
    return asyncio.run(_run(arguments))


def expose_patch_line(line: bytes) -> str:
    """Return a line of a patch with invisible characters marked and bytes that are not UTF-8 named."""
    text = line.decode("utf-8", "surrogateescape")
    visible_text = text[:1] + expose_full_line(text[1:]) if text[:1] in _SIGNS else expose_full_line(text)
    return _BYTE.sub(lambda mark: f"‹byte {int(mark[1], 16) & 0xFF:02X}{mark[2]}›", visible_text)


async def _run(arguments: DiffArguments) -> int:
    session = arguments.session
    if not session and arguments.which == "pending":
        session = find_session_to_review(arguments.directory)
        if not session:
            print_notice(_describe_nothing(arguments))
            return ExitCode.DONE
    async with open_changes(arguments, session, is_reading=True) as work:
        return await _print(work, arguments)


async def _print(work: SessionChanges, arguments: DiffArguments) -> int:
    paths = tuple(relate_path(path, arguments.directory) for path in arguments.paths)
    answer = await work.engine.query(q.PatchQuery(session=work.session, which=arguments.which, paths=paths))
    if isinstance(answer, q.RefusedAnswer):
        print_notice(f"agent-tui: {answer.message} {answer.hint}".rstrip())
        return ExitCode.FAILED
    assert isinstance(answer, q.PatchAnswer)
    if arguments.json:
        print_json(answer)
        return ExitCode.DONE
    if sys.stdout.isatty():  # a person gets control characters escaped, a program every byte
        sys.stdout.writelines(f"{expose_patch_line(line)}\n" for line in answer.patch.split(b"\n")[:-1])
    else:
        sys.stdout.buffer.write(answer.patch)
    sys.stdout.flush()
    if not answer.patch and not answer.left_out:
        print_notice(_describe_nothing(arguments))
    for path, reason in answer.left_out:
        print_notice(f"left out  {display_name(path)} ({to_one_line(reason)})")
    return ExitCode.REFUSED if answer.left_out else ExitCode.DONE


def _describe_nothing(arguments: DiffArguments) -> str:
    location = f" in {', '.join(map(to_one_line, arguments.paths))}" if arguments.paths else ""
    kind = "pending" if arguments.which == "pending" else "accepted and uncommitted"
    return f"agent-tui: nothing {kind}{location}.{''.join(map(_describe_project, arguments.paths))}"


def _describe_project(path: str) -> str:
    """Return the command for a directory that has sessions of its own, "" for any other path."""
    is_project = Path(path).is_dir() and SessionStore(Path(path)).find_latest()
    return f" For the project {to_one_line(path)}: agent-tui diff --dir {to_one_line(path)}" if is_project else ""
