"""Commit messages by a model: from what was asked for, the todos, the checks and the diff, in the style of the log.

Whatever the model answers, every group has a message: where it gives none, the one that is made without it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from typing import Final

from msgspec import Struct

from core.agent.base.prompt_tags import escape_tags, wrap_tag
from core.agent.context.turn_context import TurnContext
from core.engine.commits.basis import CommitBasis, open_basis
from core.engine.commits.preview import build_group
from core.engine.commits.side_models import ask_side_models
from core.engine.session.session import Session
from core.git.work_state import list_recent_messages
from core.protocol.events import CommitDrafted
from core.protocol.queries import CommitGroup
from core.shadow.commits.commit_content import CommitContent
from core.shadow.commits.path_version import AcceptedEdit, PathVersion

_LOG: Final = 12  # messages
_MAX_MESSAGE: Final = 600  # characters of one of them
_MAX_DIFF: Final = 24_000  # characters of all groups
_MARK: Final = re.compile(r"(?m)^[ \t]*={2,}[ \t]*(\d+)[ \t]*={2,}[ \t]*$")
_FENCE: Final = re.compile(r"\A```\w*\n(.*?)\n?```\Z", re.DOTALL)


class DraftGroup(Struct, frozen=True):
    """One commit, and its diff as far as there is room for it."""

    group: CommitGroup
    diff: str


async def draft_messages(session: Session, context: TurnContext, groups: Sequence[Sequence[str]]) -> None:
    """Have the small model, else the session's, write the messages of groups of edits; emit them."""
    log, draft_groups = await asyncio.to_thread(_describe_groups, session, groups)
    drafts = [draft_group.group.message for draft_group in draft_groups]
    async for reply, model in ask_side_models(context, "commit_messages", _render_request(log, draft_groups)):
        if new_messages := parse_messages(reply, len(draft_groups)):
            messages = tuple(new_messages.get(number, text) for number, text in enumerate(drafts))
            context.emit(CommitDrafted(messages=messages, model=model))
            return
    context.emit(CommitDrafted(messages=tuple(drafts)))


def parse_messages(text: str, count: int) -> dict[int, str]:
    """Return the messages of an answer by the index of their group; a single one needs no mark."""
    parts = _MARK.split(text.strip())
    messages = {int(number) - 1: _clean(message) for number, message in zip(parts[1::2], parts[2::2], strict=True)}
    if not messages and count == 1:
        messages = {0: _clean(text)}
    return {index: message for index, message in messages.items() if message.strip() and 0 <= index < count}


def _clean(text: str) -> str:
    text = text.strip()
    if match := _FENCE.match(text):
        text = match[1].strip()
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").split("\n")]
    return "\n".join(lines) + "\n"


def _describe_groups(session: Session, groups: Sequence[Sequence[str]]) -> tuple[list[str], list[DraftGroup]]:
    with open_basis(session) as basis:
        log = list_recent_messages(basis.repository, _LOG)
        return log, list(_build_groups(session, basis, groups))


def _build_groups(session: Session, basis: CommitBasis, groups: Sequence[Sequence[str]]) -> Iterator[DraftGroup]:
    room, before, cumulative_edits = _MAX_DIFF // max(len(groups), 1), dict[str, PathVersion](), list[AcceptedEdit]()
    for ids in groups:
        group_edits = basis.select(ids)
        cumulative_edits += group_edits
        contents = [
            content
            for content in basis.compute(cumulative_edits)
            if content.path in {edit.path for edit in group_edits}
        ]
        yield DraftGroup(build_group(session.state, "", group_edits, ()), _render_diff(contents, before)[:room])
        before |= {content.path: content.after for content in contents}


def _render_diff(contents: Sequence[CommitContent], before: dict[str, PathVersion]) -> str:
    return "".join(
        render_change(content.path, before.get(content.path, content.head), content.after) for content in contents
    )


def render_change(path: str, old: PathVersion, new: PathVersion) -> str:
    """Render the change of one path as a unified diff, for a model."""
    if any(b"\0" in side.data for side in (old, new)):
        return f"--- {path}\n(binary)\n"
    before, after = (side.data.decode("utf-8", "replace").splitlines(keepends=True) for side in (old, new))
    lines = unified_diff(before, after, f"a/{path}", f"b/{path}", n=2)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _render_request(log: Sequence[str], groups: Sequence[DraftGroup]) -> str:
    parts = ["<log>", *(f"{entry[:_MAX_MESSAGE]}\n---" for entry in map(escape_tags, log)), "</log>"]
    for number, draft_group in enumerate(groups, 1):
        group = draft_group.group
        sections = {"asked": group.prompts, "todos": group.todos, "passed": group.checks, "diff": (draft_group.diff,)}
        parts.append(f'<group number="{number}">')
        parts += [wrap_tag(name, escape_tags("\n".join(values))) for name, values in sections.items() if any(values)]
        parts.append("</group>")
    return "\n".join(parts)
