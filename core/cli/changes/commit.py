"""`agent-tui commit`: commits of what was accepted in a session and is in no commit yet."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, get_args

from msgspec.structs import replace

from core.cli.changes.work import (
    CODES,
    ChangesArguments,
    ChangesWork,
    add_common,
    is_trusted,
    open_work,
    print_json,
    relate_path,
    say,
)
from core.cli.parsing import Front, build_parser, parse_directory
from core.cli.streams.json_escapes import escape_hidden
from core.exits import ExitCode
from core.git.checks.named_programs import list_programs
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.text.display_names import display_name, to_one_line
from core.text.exposure import expose_text

COMMIT_USAGE: Final = """\
agent-tui commit [DIR] [-m MESSAGE | --write-text] [--split todo | prompt | topic]
                        [--only PATH] [--hooks box | machine | none] [--dry-run] [--json]"""

COMMIT_TEXT: Final = """\
Commit what was accepted in a session of DIR and is in no commit yet: accepted
hunks only. Your own edits stay uncommitted, what you have staged stays staged.
The repository's hooks run in the box first, and if they pass, your git commits
with them, as you."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitArguments(ChangesArguments):
    """`message` "" = the one that is made of prompts, todos and checks. `only`: paths as they were typed."""

    front: ClassVar[Front] = "commit"
    message: str = ""
    split: q.CommitSplit = "none"
    only: tuple[str, ...] = ()
    hooks: cmd.HookPlace = "box"


def parse(argv: Sequence[str]) -> CommitArguments:
    """Check the words behind `agent-tui commit`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui commit", COMMIT_USAGE, COMMIT_TEXT, CODES)
    add_common(parser)
    parser.add_argument("-m", "--message", default="", help="the message; else it is made of what was asked for")
    parser.add_argument("--split", choices=get_args(q.CommitSplit), default="none", help="one for each")
    parser.add_argument("--only", action="append", default=[], metavar="PATH", help="of this file or directory alone")
    parser.add_argument("--hooks", choices=get_args(cmd.HookPlace), default="box", help="box (default): there first")
    said = parser.parse_intermixed_args(argv)
    if said.message and (said.write_text or said.split != "none"):
        parser.error("-m is the message of one commit; it goes with neither --write-text nor --split")
    return CommitArguments(
        directory=parse_directory(said.words, parser),
        session=said.session or "",
        writes_text=said.write_text,
        dry_run=said.dry_run,
        json=said.json,
        trust=said.trust,
        message=said.message,
        split=said.split,
        only=tuple(said.only),
        hooks=said.hooks,
    )


def run(arguments: CommitArguments) -> int:
    """Show or make the commits. Raises `AgentTuiError`."""
    return asyncio.run(_go(arguments)) if is_trusted(arguments, find_programs=list_programs) else ExitCode.REFUSED


async def _go(arguments: CommitArguments) -> int:
    async with open_work(arguments) as work:
        return await _commit(work, arguments)


async def _commit(work: ChangesWork, arguments: CommitArguments) -> int:
    paths = tuple(relate_path(each, arguments.directory) for each in arguments.only)
    query = q.CommitQuery(session=work.session, split=arguments.split, paths=paths)
    found = await _preview(work, query)
    if arguments.split == "topic" and not found.refused:
        ids = tuple(edit for group in found.groups for edit in group.edits)
        *_, told = await work.submit(cmd.CommitSort(session=work.session, edits=ids), ev.CommitSorted)
        if isinstance(told, ev.CommitSorted):
            found = await _preview(work, replace(query, topics=told.topics))
    if found.refused:
        return work.refuse(arguments, found, found.refused, found.hint)
    messages = tuple(arguments.message or each.message for each in found.groups)
    if arguments.writes_text:
        groups = tuple(each.edits for each in found.groups)
        drafted = await work.submit(cmd.CommitDraft(session=work.session, groups=groups), ev.CommitDrafted)
        messages = drafted[-1].messages if isinstance(drafted[-1], ev.CommitDrafted) else messages
    if arguments.dry_run:
        _show_commits(arguments, found, messages)
        return ExitCode.DONE
    planned = tuple(
        cmd.PlannedCommit(message=text, edits=each.edits) for text, each in zip(messages, found.groups, strict=True)
    )
    command = cmd.CommitMake(session=work.session, head=found.head, commits=planned, hooks=arguments.hooks)
    ends = await work.submit(command, ev.CommitMade, count=len(planned))
    for each in found.left_out:
        say(f"left      {display_name(each.path)} ({to_one_line(each.problem)})")
    return work.report(arguments, ends)


async def _preview(work: ChangesWork, query: q.CommitQuery) -> q.CommitAnswer:
    found = await work.engine.query(query)
    assert isinstance(found, q.CommitAnswer)
    return found


def _show_commits(arguments: CommitArguments, found: q.CommitAnswer, messages: Sequence[str]) -> None:
    if arguments.json:
        print_json(found)
        return
    hooks = f", with the hooks {', '.join(found.hooks)}" if found.hooks else ""
    lines = [f"on {found.branch or 'a detached HEAD'}{hooks}"]
    for text, group in zip(messages, found.groups, strict=True):
        lines += ["", *(f"    {line}".rstrip() for line in expose_text(text.strip()).split("\n")), ""]
        lines += [
            f"  {each.operation:<7} {display_name(each.path)}  +{each.added} -{each.removed}" for each in group.files
        ]
    lines += [f"  left    {display_name(each.path)} ({to_one_line(each.problem)})" for each in found.left_out]
    sys.stdout.write(escape_hidden("\n".join(lines)) + "\n")
