"""`agent-tui commit`: commit changes that were accepted in a session and are in no commit yet."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, get_args

from msgspec.structs import replace

from core.arguments import Front
from core.cli.parsing import build_parser
from core.cli.session_changes import (
    CODES,
    ChangesArguments,
    SessionChanges,
    add_common_options,
    is_trusted,
    open_changes,
    print_json,
    print_notice,
    read_common_options,
    relate_path,
)
from core.cli.streams import escape_hidden
from core.exits import ExitCode
from core.git.executed_programs import list_programs
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.text.display_names import display_name, to_one_line
from core.text.exposure import expose_text

COMMIT_USAGE: Final = """\
agent-tui commit [DIR] [-m MESSAGE | --write-text] [--split todo | prompt | topic]
                        [--only PATH] [--hooks box | machine | none] [--dry-run] [--json]"""

COMMIT_TEXT: Final = """\
Commit what was accepted in a session of DIR and is not committed yet: accepted
hunks only. Your own edits stay uncommitted, what you have staged stays staged.
The repository's hooks run sandboxed first; if they pass, your git commits with
them, as you."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitArguments(ChangesArguments):
    """`message` "" = a message built from prompts, todos and checks. `only`: paths as they were typed."""

    front: ClassVar[Front] = "commit"
    message: str = ""
    split: q.CommitSplit = "none"
    only: tuple[str, ...] = ()
    hooks: cmd.HookPlace = "box"


def parse(argv: Sequence[str]) -> CommitArguments:
    """Parse the arguments of `agent-tui commit`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui commit", COMMIT_USAGE, COMMIT_TEXT, CODES)
    add_common_options(parser)
    parser.add_argument("-m", "--message", default="", help="the message (default: made from your prompts)")
    parser.add_argument(
        "--split", choices=get_args(q.CommitSplit), default="none", help="make a commit for each todo, prompt or topic"
    )
    parser.add_argument("--only", action="append", default=[], metavar="PATH", help="only this file or directory")
    parser.add_argument(
        "--hooks",
        choices=get_args(cmd.HookPlace),
        default="box",
        help="run hooks sandboxed first (box, default), only on this machine, or not at all",
    )
    args = parser.parse_intermixed_args(argv)
    if args.message and (args.write_text or args.split != "none"):
        parser.error("-m is the message of one commit; it can't be combined with --write-text or --split")
    return CommitArguments(
        **read_common_options(args, parser),
        message=args.message,
        split=args.split,
        only=tuple(args.only),
        hooks=args.hooks,
    )


def run(arguments: CommitArguments) -> int:
    """Preview or make the commits. Raises `AgentTuiError`."""
    return asyncio.run(_run(arguments)) if is_trusted(arguments, find_programs=list_programs) else ExitCode.REFUSED


async def _run(arguments: CommitArguments) -> int:
    async with open_changes(arguments, is_reading=arguments.dry_run) as work:
        return await _commit(work, arguments)


async def _commit(work: SessionChanges, arguments: CommitArguments) -> int:
    paths = tuple(relate_path(path, arguments.directory) for path in arguments.only)
    query = q.CommitQuery(session=work.session, split=arguments.split, paths=paths)
    answer = await _preview(work, query)
    if arguments.split == "topic" and not answer.refused:
        ids = tuple(edit for group in answer.groups for edit in group.edits)
        *_, event = await work.submit(cmd.CommitSort(session=work.session, edits=ids), ev.CommitSorted)
        if isinstance(event, ev.CommitSorted):
            answer = await _preview(work, replace(query, topics=event.topics))
    if answer.refused:
        return work.refuse(arguments, answer, answer.refused, answer.hint)
    messages = tuple(arguments.message or group.message for group in answer.groups)
    if arguments.writes_text:
        groups = tuple(group.edits for group in answer.groups)
        events = await work.submit(cmd.CommitDraft(session=work.session, groups=groups), ev.CommitDrafted)
        messages = events[-1].messages if isinstance(events[-1], ev.CommitDrafted) else messages
    if arguments.dry_run:
        _show_commits(arguments, answer, messages)
        return ExitCode.DONE
    planned_commits = tuple(
        cmd.PlannedCommit(message=text, edits=group.edits) for text, group in zip(messages, answer.groups, strict=True)
    )
    command = cmd.CommitMake(session=work.session, head=answer.head, commits=planned_commits, hooks=arguments.hooks)
    ends = await work.submit(command, ev.CommitMade, count=len(planned_commits))
    for file in answer.left_out:
        print_notice(f"left out  {display_name(file.path)} ({to_one_line(file.problem)})")
    return work.report(arguments, ends)


async def _preview(work: SessionChanges, query: q.CommitQuery) -> q.CommitAnswer:
    answer = await work.engine.query(query)
    assert isinstance(answer, q.CommitAnswer)
    return answer


def _show_commits(arguments: CommitArguments, answer: q.CommitAnswer, messages: Sequence[str]) -> None:
    if arguments.json:
        print_json(answer)
        return
    hooks = f", with the hooks {', '.join(answer.hooks)}" if answer.hooks else ""
    lines = [f"on {answer.branch or 'a detached HEAD'}{hooks}"]
    for text, group in zip(messages, answer.groups, strict=True):
        lines += ["", *(f"    {line}".rstrip() for line in expose_text(text.strip()).split("\n")), ""]
        lines += [
            f"  {file.operation:<7} {display_name(file.path)}  +{file.added} -{file.removed}" for file in group.files
        ]
    lines += [f"  left out  {display_name(file.path)} ({to_one_line(file.problem)})" for file in answer.left_out]
    sys.stdout.write(escape_hidden("\n".join(lines)) + "\n")
