"""Commits of accepted hunks: their messages drafted, and the commits made beside whatever else runs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from functools import partial
from typing import Final

from core.engine.session.session import Session
from core.engine.session.tasks import Effect
from core.engine.session.turns import reserve_turn, start_turn
from core.errors import CommandRejected
from core.protocol import commands as cmd

MAX_MESSAGE: Final = 100_000  # characters
_NAME: Final = re.compile(r"[\w][\w./+-]{0,200}")


async def prepare_draft(session: Session, command: cmd.CommitDraft) -> Effect:
    """Ask a model for the messages; nothing else runs meanwhile."""
    _check_edits(command.groups)
    from core.engine.commits.drafting import draft_messages

    await reserve_turn(session)
    return partial(start_turn, session, partial(draft_messages, session, groups=command.groups), None)


async def prepare_sort(session: Session, command: cmd.CommitSort) -> Effect:
    """Ask a model which edits belong together; nothing else runs meanwhile."""
    _check_edits([command.edits])
    from core.engine.commits.sorting import sort_edits

    await reserve_turn(session)
    return partial(start_turn, session, partial(sort_edits, session, ids=command.edits), None)


async def prepare_make(session: Session, command: cmd.CommitMake) -> Effect:
    """Check trust, messages and edits; the commits are made beside the session."""
    await asyncio.to_thread(session.services.trust.check_commit)
    _check_edits([commit.edits for commit in command.commits])
    for commit in command.commits:
        if not commit.message.strip():
            raise CommandRejected("a commit has no message.", hint="Write one.", code="message_empty")
        if "\0" in commit.message or len(commit.message) > MAX_MESSAGE:
            raise CommandRejected("the message is too long, or holds a NUL character.", code="message_invalid")
    from core.engine.commits.making import make_commits

    return partial(session.run_beside, partial(make_commits, session, command), name="commit")


async def prepare_pull_request_draft(session: Session, _: cmd.PullRequestDraft) -> Effect:
    """Ask a model for title and text; nothing else runs meanwhile."""
    from core.engine.commits.pull_request import draft_pull_request

    await reserve_turn(session)
    return partial(start_turn, session, partial(draft_pull_request, session), None)


def prepare_pull_request(session: Session, command: cmd.PullRequestOpen) -> Effect:
    """Check trust and the names; the branch is pushed beside the session."""
    session.services.trust.check()
    for kind, name in (("branch", command.branch), ("remote", command.remote), ("base", command.base or "main")):
        if not _NAME.fullmatch(name) or ".." in name:
            raise CommandRejected(
                f"{name!r} is no name of a {kind}.", hint="Use letters, digits, - _ . /", code="name_invalid"
            )
    if not command.title.strip() or "\0" in command.title + command.body:
        raise CommandRejected("the pull request has no title.", hint="Write one.", code="message_empty")
    from core.engine.commits.pull_request import open_pull_request

    return partial(session.run_beside, partial(open_pull_request, session, command), name="pull request")


def _check_edits(groups: Sequence[Sequence[str]]) -> None:
    ids = [edit_id for group in groups for edit_id in group]
    if not ids or len(set(ids)) != len(ids):
        raise CommandRejected(
            "each commit needs accepted edits, each once.", hint="Look again: /commit", code="edits_invalid"
        )
