"""`agent-tui pr`: push the branch and open a pull request with the evidence of a session."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

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
    read_common_options,
)
from core.cli.streams import escape_hidden
from core.exits import ExitCode
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q

PR_USAGE: Final = """\
agent-tui pr [DIR] [--title TITLE] [--body TEXT | --write-text] [--draft]
                    [--branch NAME] [--base NAME] [--dry-run]"""

PR_TEXT: Final = """\
Push the branch of DIR, and open a pull request with gh (GitHub) or glab (GitLab).
Its text names the checks that passed and the todos that are done. First it shows
what is pushed where; --dry-run stops there. --draft opens it as a draft, not ready
for review."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequestArguments(ChangesArguments):
    """A field that is "" = as the preview proposes. `is_draft`: not ready for review."""

    front: ClassVar[Front] = "pr"
    title: str = ""
    body: str = ""
    branch: str = ""
    base: str = ""
    is_draft: bool = False


def parse(argv: Sequence[str]) -> PullRequestArguments:
    """Parse the arguments of `agent-tui pr`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui pr", PR_USAGE, PR_TEXT, CODES)
    add_common_options(parser)
    for name in ("title", "body", "branch", "base"):
        parser.add_argument(f"--{name}", default="", help=f"use this {name} instead of the proposed one")
    parser.add_argument("--draft", action="store_true", help="open it as a draft")
    args = parser.parse_intermixed_args(argv)
    return PullRequestArguments(
        **read_common_options(args, parser),
        title=args.title,
        body=args.body,
        branch=args.branch,
        base=args.base,
        is_draft=args.draft,
    )


def run(arguments: PullRequestArguments) -> int:
    """Preview or open the pull request. Raises `AgentTuiError`."""
    return asyncio.run(_run(arguments)) if is_trusted(arguments) else ExitCode.REFUSED


async def _run(arguments: PullRequestArguments) -> int:
    async with open_changes(arguments, is_reading=arguments.dry_run) as work:
        return await _open(work, arguments)


async def _open(work: SessionChanges, arguments: PullRequestArguments) -> int:
    answer = await work.engine.query(q.PullRequestQuery(session=work.session))
    assert isinstance(answer, q.PullRequestAnswer)
    if answer.refused:
        return work.refuse(arguments, answer, answer.refused, answer.hint)
    title, body = arguments.title or answer.title, arguments.body or answer.body
    if arguments.writes_text:
        events = await work.submit(cmd.PullRequestDraft(session=work.session), ev.PullRequestDrafted)
        if isinstance(last := events[-1], ev.PullRequestDrafted):
            title, body = arguments.title or last.title, arguments.body or last.body
    command = cmd.PullRequestOpen(
        session=work.session,
        branch=arguments.branch or answer.branch,
        base=arguments.base or answer.base,
        remote=answer.remote,
        title=title,
        body=body,
        is_draft=arguments.is_draft,
    )
    if arguments.dry_run:
        if arguments.json:
            print_json(answer)
        else:
            sys.stdout.write(_describe_pull_request(answer, command))
        return ExitCode.DONE
    sys.stderr.write(_describe_pull_request(answer, command).rstrip("\n") + "\n")
    sys.stderr.flush()
    return work.report(arguments, await work.submit(command, ev.PullRequestOpened))


def _describe_pull_request(answer: q.PullRequestAnswer, command: cmd.PullRequestOpen) -> str:
    """Return what is pushed where, which program opens which kind of request, and its text."""
    kind = "a draft pull request" if command.is_draft else "a pull request"
    next_step = (
        f"then {answer.program} opens {kind}" if answer.program else f"neither gh nor glab is available to open {kind}"
    )
    head = f"push HEAD as {command.branch} to {command.remote} ({answer.url}), {next_step}; into {command.base}"
    return escape_hidden(f"{head}\n\n{command.title}\n\n{command.body}")
