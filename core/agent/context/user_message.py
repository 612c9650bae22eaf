"""The message for the user's words: where they work, what is open, which rules apply, what they mention.

What does not change is said once in a session; what changes is said again when it did. Messages are only ever
appended, so a request begins with the bytes of the one before it.
"""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from core.agent.context.mentions import MentionedFiles, read_mentions
from core.agent.context.prefix import PromptSetup
from core.agent.context.project_facts import describe_git_status
from core.agent.context.prompt_setup import load_setup
from core.agent.context.prompt_tags import escape_attribute, escape_tags, wrap_tag
from core.agent.context.reminders import Reminders, wrap_reminder
from core.agent.context.sent_attachments import AttachmentSender, MentionedAttachments
from core.agent.gate.capabilities import build_reader
from core.agent.turn.turn_context import TurnContext
from core.config.project_rules import ProjectRule, find_nested_rules, to_loaded_rule
from core.protocol.attachment_labels import LABEL_PATTERN, find_attachments
from core.protocol.events import LoadedRule, Notice, RulesLoaded
from core.protocol.messages import Attachment, UserMessage

GIT_TIMEOUT = 1.0  # seconds
MAX_OPEN_FILES = 20


async def compose_user_message(
    context: TurnContext, prompt: str, open_files: Sequence[str], reminders: Reminders
) -> UserMessage:
    """Build the message that the model is sent for a prompt."""
    host, announced = context.terminal.host, context.memory.announced
    root = host.workspace.root
    reading = _read_git_status(root, trusted=context.permissions.is_trusted)
    made, git, _ = await asyncio.gather(load_setup(context), reading, context.terminal.find_box())
    parts: list[str] = []
    own = (each for each in context.state.messages if isinstance(each, UserMessage))
    if not any("<project_layout>" in each.content for each in own):
        parts += [wrap_tag("user_info", _format_user_info(root)), wrap_tag("project_layout", escape_tags(made.layout))]
    now, model = datetime.now().astimezone(), escape_tags(context.routes.current.id)
    parts += _tag_if_changed(announced, "now", f"Date: {now:%A, %Y-%m-%d}\nModel: {model}")
    parts += _tag_if_changed(announced, "git_status", escape_tags(git))
    viewed = escape_tags("\n".join(open_files[:MAX_OPEN_FILES]))
    parts += _tag_if_changed(announced, "open_and_recently_viewed_files", viewed)
    attached, shown = MentionedFiles(), MentionedAttachments()
    if "@" in prompt:
        attached = read_mentions(build_reader(context.permissions, context.memory.read_digests), prompt)
        sender = AttachmentSender(host.shadow.blobs, context.memory.stand_ins, context.emit)
        shown = await sender.attach_mentioned(attached.pictures)
    touched = dict.fromkeys((*open_files, *attached.paths, *context.memory.read_digests, *context.state.changes))
    parts += _render_new_rules(context, made, touched)
    if blocks := (*attached.blocks, *shown.blocks):
        parts.append(wrap_tag("attached_files", "\n".join(blocks)))
    parts.append(wrap_tag("user_query", made.dialect.format_prompt(prompt)))
    if mode := reminders.render_mode():
        parts.append(wrap_reminder(mode))
    named = find_attachments(prompt, context.state.attachments)
    for unknown in [each for each in LABEL_PATTERN.findall(prompt) if each not in context.state.attachments]:
        context.emit(Notice(level="warning", message=f"{unknown} names nothing of this session: it was sent as text."))
    return UserMessage(content="\n\n".join(parts), attachments=(*named, *shown.attachments))


def build_bare_message(prompt: str, attachments: Mapping[str, Attachment]) -> UserMessage:
    """Build a message of the user's words with what they attached, and nothing else."""
    return UserMessage(content=wrap_tag("user_query", prompt), attachments=find_attachments(prompt, attachments))


async def _read_git_status(root: Path, *, trusted: bool) -> str:
    if not trusted:
        return ""
    try:
        async with asyncio.timeout(GIT_TIMEOUT):
            return await asyncio.to_thread(describe_git_status, root)
    except TimeoutError:
        return ""


def _format_user_info(root: Path) -> str:
    shell = Path(os.environ.get("SHELL", "")).name or "sh"
    return "\n".join(
        (
            f"OS: {platform.system()} {platform.release()}",
            f"Shell: {escape_tags(shell)}",
            f"Workspace: {escape_tags(str(root))}",
        )
    )


def _tag_if_changed(announced: dict[str, str], tag: str, text: str) -> list[str]:
    if not text or announced.get(tag) == text:
        return []
    announced[tag] = text
    return [wrap_tag(tag, text)]


def _render_new_rules(context: TurnContext, made: PromptSetup, touched: Iterable[str]) -> list[str]:
    """Render rules that the model does not know: those of touched files, and those that came after the beginning."""
    paths = list(touched)
    found: list[ProjectRule | LoadedRule] = [
        rule for rule in made.rules.scoped if any(rule.applies_to(path) for path in paths)
    ]
    if context.permissions.is_trusted:
        found += find_nested_rules(context.terminal.host.workspace, paths, context.hears)
    found += [
        rule for rule in made.rules.always if f'<rule path="{escape_attribute(rule.path)}">' not in made.prefix.system
    ]
    told = {f"rule:{each.path}": each.note if isinstance(each, LoadedRule) else "told" for each in found}
    fresh = [
        each
        for each in found
        if context.memory.announced.get(f"rule:{each.path}") not in {"told", told[f"rule:{each.path}"]}
    ]
    if not fresh:
        return []
    context.memory.announced.update({f"rule:{each.path}": told[f"rule:{each.path}"] for each in fresh})
    context.emit(RulesLoaded(rules=_collect_loaded_rules(context, made, fresh)))
    texts = [
        f'<rule path="{escape_attribute(rule.path)}">\n{escape_tags(rule.text)}\n</rule>'
        for rule in fresh
        if isinstance(rule, ProjectRule)
    ]
    return [wrap_tag("rules", "\n".join(texts))] if texts else []


def _collect_loaded_rules(
    context: TurnContext, made: PromptSetup, fresh: Sequence[ProjectRule | LoadedRule]
) -> tuple[LoadedRule, ...]:
    """Return every rule that binds by now, so the latest event is enough to know them."""
    again = {each.path for each in fresh}
    context.memory.joined_rules = [each for each in context.memory.joined_rules if each.path not in again]
    context.memory.joined_rules += [to_loaded_rule(each) if isinstance(each, ProjectRule) else each for each in fresh]
    return made.rules.list_loaded() + tuple(context.memory.joined_rules)
