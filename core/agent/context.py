"""What goes with the user's words: where they work, what is open, which rules apply, what they mention.

What does not change is said once in a session; what changes is said again when it did. Messages are only ever
appended, so a request begins with the bytes of the one before it.
"""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from core.agent.attached import taken_in
from core.agent.capabilities import FileReader
from core.agent.git_status import git_status
from core.agent.mentions import attach
from core.agent.prefix import Prepared, prepare
from core.agent.reminders import mode_reminder, reminder
from core.agent.session import SessionContext
from core.agent.speaking import in_dialect
from core.agent.tags import as_data, attribute, tagged
from core.protocol.attachments import LABEL, attachments_in
from core.protocol.events import LoadedRule, Notice, RulesLoaded
from core.protocol.messages import AssistantMessage, UserMessage
from core.rules import Rule, as_loaded, nested_agents

GIT_PATIENCE = 1.0  # seconds
MAX_OPEN_FILES = 20


async def prepared(session: SessionContext) -> Prepared:
    """The session's prefix and layout, made once; safe to call early, while the user still types.

    Raises `ConfigError` when the texts of the model's dialect can't be used.
    """
    if session.preparing is None or session.preparing.cancelled():
        session.preparing = asyncio.ensure_future(_prepare(session))
    try:
        made = await asyncio.shield(session.preparing)
    except Exception:
        session.preparing = None
        raise
    made = await in_dialect(session, made)
    if made.changed:
        _tell_of_change(session)
    return made


def _tell_of_change(session: SessionContext) -> None:
    """Once, and only to a session that a model has answered in."""
    if "prefix" in session.told or not any(isinstance(each, AssistantMessage) for each in session.state.messages):
        return
    session.told["prefix"] = "changed"
    message = "This version of the program has other tools than the one that this session began with."
    hint = "The model is told of them, so the whole conversation is read anew once."
    session.emit(Notice(level="info", message=message, hint=hint))


async def _prepare(session: SessionContext) -> Prepared:
    made = await asyncio.to_thread(
        prepare, session.workspace, session.directory, trusted=session.trusted, hears=session.hears
    )
    if loaded := made.rules.loaded():
        session.emit(RulesLoaded(rules=loaded))
    return made


async def compose(session: SessionContext, prompt: str, open_files: Sequence[str]) -> UserMessage:
    """The message that the model is sent for a prompt."""
    made, git, _ = await asyncio.gather(prepared(session), _git(session), session.terminal.find())
    parts: list[str] = []
    if not _told_of_layout(session):
        parts += [tagged("user_info", _user_info(session)), tagged("project_layout", as_data(made.layout))]
    parts += _if_new(session, "now", _now(session))
    parts += _if_new(session, "git_status", as_data(git))
    parts += _if_new(session, "open_and_recently_viewed_files", as_data("\n".join(open_files[:MAX_OPEN_FILES])))
    attached = attach(FileReader(session), prompt)
    shown = await taken_in(session, attached.pictures)
    touched = dict.fromkeys((*open_files, *attached.paths, *session.seen, *session.state.changes))
    parts += _rules(session, made, touched)
    if blocks := (*attached.blocks, *shown.blocks):
        parts.append(tagged("attached_files", "\n".join(blocks)))
    parts.append(tagged("user_query", made.dialect.task(prompt)))
    if mode := mode_reminder(session):
        parts.append(reminder(mode))
    named = attachments_in(prompt, session.state.attached)
    for unknown in [each for each in LABEL.findall(prompt) if each not in session.state.attached]:
        session.emit(Notice(level="warning", message=f"{unknown} names nothing of this session: it was sent as text."))
    return UserMessage(content="\n\n".join(parts), attachments=(*named, *shown.attachments))


def said_alone(session: SessionContext, prompt: str) -> UserMessage:
    """The user's words with what they attached, and nothing else."""
    return UserMessage(content=tagged("user_query", prompt), attachments=attachments_in(prompt, session.state.attached))


async def _git(session: SessionContext) -> str:
    if not session.trusted:
        return ""
    try:
        async with asyncio.timeout(GIT_PATIENCE):
            return await asyncio.to_thread(git_status, session.workspace.root)
    except TimeoutError:
        return ""


def _told_of_layout(session: SessionContext) -> bool:
    return any(
        isinstance(message, UserMessage) and "<project_layout>" in message.content for message in session.state.messages
    )


def _user_info(session: SessionContext) -> str:
    shell = Path(os.environ.get("SHELL", "")).name or "sh"
    return "\n".join(
        (
            f"OS: {platform.system()} {platform.release()}",
            f"Shell: {as_data(shell)}",
            f"Workspace: {as_data(str(session.workspace.root))}",
        )
    )


def _now(session: SessionContext) -> str:
    """What may change within a session: a prefix that held it would change with it."""
    return f"Date: {datetime.now().astimezone():%A, %Y-%m-%d}\nModel: {as_data(session.route.id)}"


def _if_new(session: SessionContext, tag: str, text: str) -> list[str]:
    if not text or session.told.get(tag) == text:
        return []
    session.told[tag] = text
    return [tagged(tag, text)]


def _rules(session: SessionContext, made: Prepared, touched: Iterable[str]) -> list[str]:
    """Glob rules and nested AGENTS.md files that speak of a touched file, each once in a session; so are rules that
    came after its beginning, since its prefix never changes."""
    paths = list(touched)
    found: list[Rule | LoadedRule] = [
        rule for rule in made.rules.scoped if any(rule.applies_to(path) for path in paths)
    ]
    found += nested_agents(session.workspace, paths, session.hears) if session.trusted else ()
    found += [rule for rule in made.rules.always if f'<rule path="{attribute(rule.path)}">' not in made.prefix.system]
    told = {f"rule:{each.path}": each.note if isinstance(each, LoadedRule) else "told" for each in found}
    fresh = [each for each in found if session.told.get(f"rule:{each.path}") not in {"told", told[f"rule:{each.path}"]}]
    if not fresh:
        return []
    session.told.update({f"rule:{each.path}": told[f"rule:{each.path}"] for each in fresh})
    session.emit(RulesLoaded(rules=_all_loaded(session, made, fresh)))
    texts = [
        f'<rule path="{attribute(rule.path)}">\n{as_data(rule.text)}\n</rule>'
        for rule in fresh
        if isinstance(rule, Rule)
    ]
    return [tagged("rules", "\n".join(texts))] if texts else []


def _all_loaded(session: SessionContext, made: Prepared, fresh: Sequence[Rule | LoadedRule]) -> tuple[LoadedRule, ...]:
    """The event names every rule that binds by now, so the latest one is enough to know them."""
    again = {each.path for each in fresh}
    session.joined = [each for each in session.joined if each.path not in again]
    session.joined += [as_loaded(each) if isinstance(each, Rule) else each for each in fresh]
    return made.rules.loaded() + tuple(session.joined)
