"""Commit messages and topics by a model: the small one first, else the session's.

Messages are written from the prompts, the todos, the checks and the diff, in the style of the log. A group
without a message in the model's answer gets one that is written without a model.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from difflib import unified_diff
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.agent.base.prompt_tags import escape_tags, wrap_tag
from core.agent.context.turn_context import TurnContext
from core.engine.commits.basis import CommitBasis, open_basis
from core.engine.commits.preview import build_group, list_prompts
from core.engine.session.session import Session
from core.errors import ProviderError
from core.git.work_state import list_recent_messages
from core.patterns import compile_lazily
from core.prompts import render
from core.protocol.events import CommitDrafted, CommitSorted
from core.protocol.messages import UserMessage
from core.protocol.queries import CommitGroup
from core.protocol.review import CommitTopic
from core.shadow.commits.commit_content import CommitContent
from core.shadow.commits.path_version import AcceptedEdit, PathVersion

_MAX_TOKENS: Final = 2_000
_LOG: Final = 12  # messages
_MAX_MESSAGE: Final = 600  # characters of one of them
_MAX_DIFF: Final = 24_000  # characters of the diffs in a request
_MARK: Final = compile_lazily(r"(?m)^[ \t]*={2,}[ \t]*(\d+)[ \t]*={2,}[ \t]*$")
_FENCE: Final = compile_lazily(r"\A```\w*\n(.*?)\n?```\Z", re.DOTALL)
_MAX_TITLE: Final = 120  # characters
_TOPIC: Final = compile_lazily(r"(?m)^[ \t]*(?:[-*][ \t]*)?(\d+(?:[ \t]*,[ \t]*\d+)*)[ \t]*(?::(.*))?$")


class DraftGroup(Struct, frozen=True):
    """One commit, and its clipped diff."""

    group: CommitGroup
    diff: str


async def draft_messages(session: Session, context: TurnContext, groups: Sequence[Sequence[str]]) -> None:
    """Have a model write the messages of groups of edits; emit them."""
    log, draft_groups = await asyncio.to_thread(_describe_groups, session, groups)
    drafts = [draft_group.group.message for draft_group in draft_groups]
    async for reply, model in ask_side_models(context, "commit_messages", _render_request(log, draft_groups)):
        if new_messages := parse_messages(reply, len(draft_groups)):
            messages = tuple(new_messages.get(number, text) for number, text in enumerate(drafts))
            context.emit(CommitDrafted(messages=messages, model=model))
            return
    context.emit(CommitDrafted(messages=tuple(drafts)))


def parse_messages(text: str, count: int) -> dict[int, str]:
    """Parse the messages of an answer, by the index of their group; a single one needs no mark."""
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


async def sort_edits(session: Session, context: TurnContext, ids: Sequence[str]) -> None:
    """Have a model sort edits by topic; emit the topics."""
    request = await asyncio.to_thread(_describe_edits, session, ids)
    async for reply, model in ask_side_models(context, "commit_topics", request):
        if topics := parse_topics(reply, ids):
            context.emit(CommitSorted(topics=tuple(topics), model=model))
            return
    context.emit(CommitSorted(topics=(CommitTopic(title="", edits=tuple(ids)),)))


def parse_topics(text: str, ids: Sequence[str]) -> list[CommitTopic]:
    """Parse the topics of an answer, one per line as `1, 3: words`. An edit belongs to the first topic that names
    it."""
    rest = dict(enumerate(ids, 1))
    commit_topics = [
        CommitTopic(
            title=" ".join(title.split())[:_MAX_TITLE] or f"Topic {index}",
            edits=tuple(rest.pop(number) for number in map(int, numbers.split(",")) if number in rest),
        )
        for index, (numbers, title) in enumerate(_TOPIC.findall(text), 1)
    ]
    return [commit_topic for commit_topic in commit_topics if commit_topic.edits]


def _describe_edits(session: Session, ids: Sequence[str]) -> str:
    with open_basis(session) as basis:
        edits_by_id = {accepted_edit.id: accepted_edit for accepted_edit in basis.select(ids)}
    prompts, todos = list_prompts(session.state), {todo.id: todo.content for todo in session.state.todos}
    room = _MAX_DIFF // max(len(ids), 1)
    parts: list[str] = []
    for number, edit in enumerate((edits_by_id[edit_id] for edit_id in ids), 1):
        sections = {
            "asked": prompts.get(edit.turn, "")[:room],
            "todo": todos.get(edit.todo, ""),
            "diff": render_change(edit.path, edit.before, edit.after)[:room],
        }
        tags = [wrap_tag(name, escape_tags(text)) for name, text in sections.items() if text]
        parts += [f'<edit number="{number}">', *tags, "</edit>"]
    return "\n".join(parts)


async def ask_side_models(context: TurnContext, template: str, request: str) -> AsyncIterator[tuple[str, str]]:
    """Yield the answers of the models, one after the other, with the model's id. A model that fails is skipped. An
    interruption ends the iteration, and the caller uses its result without a model."""
    side, system, messages = context.build_side_requests(), render(template), [UserMessage(content=request)]
    for route in (*side.routes.small, replace(side.routes.current, effort="", tier="")):
        try:
            reply = await side.ask("small", route, system, messages, max_tokens=_MAX_TOKENS)
        except ProviderError:
            continue
        except asyncio.CancelledError:
            return
        yield reply, route.id
