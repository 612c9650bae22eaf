"""Accepted edits sorted by topic, by a model: which of them belong into one commit."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Final

from core.agent.base.prompt_tags import escape_tags, wrap_tag
from core.agent.context.turn_context import TurnContext
from core.engine.commits.basis import open_basis
from core.engine.commits.drafting import render_change
from core.engine.commits.preview import list_prompts
from core.engine.commits.side_models import ask_side_models
from core.engine.session.session import Session
from core.protocol.events import CommitSorted
from core.protocol.review import CommitTopic

_MAX_DIFF: Final = 24_000  # characters of all edits
_MAX_TITLE: Final = 120  # characters
_TOPIC: Final = re.compile(r"(?m)^[ \t]*(?:[-*][ \t]*)?(\d+(?:[ \t]*,[ \t]*\d+)*)[ \t]*(?::(.*))?$")


async def sort_edits(session: Session, context: TurnContext, ids: Sequence[str]) -> None:
    """Have the small model, else the session's, sort edits by topic; emit which belong together."""
    request = await asyncio.to_thread(_describe_edits, session, ids)
    async for reply, model in ask_side_models(context, "commit_topics", request):
        if topics := parse_topics(reply, ids):
            context.emit(CommitSorted(topics=tuple(topics), model=model))
            return
    context.emit(CommitSorted(topics=(CommitTopic(title="", edits=tuple(ids)),)))


def parse_topics(text: str, ids: Sequence[str]) -> list[CommitTopic]:
    """Return the topics of an answer, a line `1, 3: words` for each. An edit belongs to the first one that names it."""
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
