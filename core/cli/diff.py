"""`agent-tui diff`: what waits for a review, or was accepted, as a patch that `git apply` takes to the byte."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from core.cli.parsing import Front, build_parser, parse_directory, parse_session_id
from core.cli.review import session_to_review
from core.cli.session_changes import ChangesArguments, ChangesWork, open_work, print_json, relate_path, say
from core.exits import ExitCode
from core.protocol import queries as q
from core.text.display_names import display_name, to_one_line
from core.text.exposure import expose_whole

DIFF_USAGE: Final = "agent-tui diff [PATH ...] [--accepted] [--dir DIR] [--session ID] [--json]"

DIFF_TEXT: Final = """\
Print what waits for a review as one patch. `agent-tui diff | git apply` puts it
into another work tree of the same state: binary files, modes, links and renames
too. PATH limits it to files and directories. With --accepted: what was accepted
and is in no commit yet, from the last commit on."""

DIFF_CODES: Final = """\
exit codes:
  0   done (also when there is nothing)
  1   failed; the message says why
  2   wrong arguments
  4   something is not in it; the messages say what"""


_SIGNS: Final = frozenset("+- ")
_BYTE: Final = re.compile("‹U\\+(DC[89A-F][0-9A-F])(×[0-9]+|)›")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffArguments(ChangesArguments):
    """`paths` as they were typed."""

    front: ClassVar[Front] = "diff"
    paths: tuple[str, ...] = ()
    which: Literal["pending", "accepted"] = "pending"


def parse(argv: Sequence[str]) -> DiffArguments:
    """Check the words behind `agent-tui diff`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui diff", DIFF_USAGE, DIFF_TEXT, DIFF_CODES)
    parser.add_argument("paths", nargs="*", metavar="PATH", help="only these files and directories")
    parser.add_argument("--accepted", action="store_true", help="what was accepted and is in no commit yet")
    parser.add_argument("--dir", default="", metavar="DIR", help="the project; the current directory by default")
    parser.add_argument("--session", type=parse_session_id, metavar="ID", help="else the last one")
    parser.add_argument("--json", action="store_true", help="the answer, as JSON")
    args = parser.parse_intermixed_args(argv)
    return DiffArguments(
        directory=parse_directory([args.dir] if args.dir else [], parser),
        session=args.session or "",
        json=args.json,
        paths=tuple(args.paths),
        which="accepted" if args.accepted else "pending",
    )


def run(arguments: DiffArguments) -> int:
    """Print the patch. Raises `AgentTuiError`."""
    return asyncio.run(_go(arguments))


def expose_patch_line(line: bytes) -> str:
    """Return a line of a patch with all in it made visible; bytes that are no UTF-8 are named."""
    text = line.decode("utf-8", "surrogateescape")
    visible_text = text[:1] + expose_whole(text[1:]) if text[:1] in _SIGNS else expose_whole(text)
    return _BYTE.sub(lambda mark: f"‹byte {int(mark[1], 16) & 0xFF:02X}{mark[2]}›", visible_text)


async def _go(arguments: DiffArguments) -> int:
    session = arguments.session
    if not session and arguments.which == "pending":
        session = session_to_review(arguments.directory)
        if not session:
            return ExitCode.DONE
    async with open_work(arguments, session) as work:
        return await _print(work, arguments)


async def _print(work: ChangesWork, arguments: DiffArguments) -> int:
    paths = tuple(relate_path(path, arguments.directory) for path in arguments.paths)
    answer = await work.engine.query(q.PatchQuery(session=work.session, which=arguments.which, paths=paths))
    if isinstance(answer, q.RefusedAnswer):
        say(f"agent-tui: {answer.message} {answer.hint}".rstrip())
        return ExitCode.FAILED
    assert isinstance(answer, q.PatchAnswer)
    if arguments.json:
        print_json(answer)
        return ExitCode.DONE
    if sys.stdout.isatty():  # what would act or hide is written as what it is; other programs get every byte
        sys.stdout.writelines(f"{expose_patch_line(line)}\n" for line in answer.patch.split(b"\n")[:-1])
    else:
        sys.stdout.buffer.write(answer.patch)
    sys.stdout.flush()
    for path, reason in answer.left_out:
        say(f"left      {display_name(path)} ({to_one_line(reason)})")
    return ExitCode.REFUSED if answer.left_out else ExitCode.DONE
