"""Injection of rules: into the system prompt when the session begins, by messages afterwards.

The conversation itself shows which rules the model knows: a rule that a compaction or a rewind removed is sent again,
and so is one whose file changed. Messages that were sent are never changed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from core.agent.base.permissions import CallPermissions
from core.agent.base.prompt_tags import escape_attribute, render_rule, render_rule_block, wrap_tag
from core.agent.context.turn_context import TurnContext
from core.config.rules.loading import find_references, load_rule_files
from core.config.rules.rule import RuleChoice, RuleFiles, RuleOccasion, choose_rules, find_mentioned_rules, list_loaded
from core.patterns import compile_lazily
from core.prompts import render
from core.protocol.events import LoadedRule, MessageAppended, RulesLoaded
from core.protocol.messages import Message, UserMessage
from core.tools.base import FetchedRules

MAX_NEAR = 500  # paths whose folders are searched for rule files
_BLOCK = compile_lazily(r'<rule path="([^"]*)"[^>\n]*>\n.*?\n</rule>', re.DOTALL)
_REMOVED = compile_lazily(r'<removed_rule path="([^"]*)"/>')


class RuleReview(Struct, frozen=True, kw_only=True):
    """The rules for an occasion, compared with those that the model knows.

    `known_blocks`: the blocks that it was sent, by the path in their tags."""

    files: RuleFiles
    choices: tuple[RuleChoice, ...]
    known_blocks: dict[str, str]

    def find_news(self) -> tuple[list[str], list[str]]:
        """Return the blocks of new rules, and those of changed ones."""
        fresh, changed_blocks = [], []
        for choice in self.choices:
            known_block = self.known_blocks.get(escape_attribute(choice.rule.path))
            if known_block is None:
                fresh += [render_rule_block(choice)] if choice.binds or choice.is_listed else []
            elif known_block not in (render_rule_block(choice), render_rule(choice.rule)):
                changed_blocks.append(render_rule_block(choice) if choice.is_listed else render_rule(choice.rule))
        return fresh, changed_blocks

    def find_removed(self) -> list[str]:
        """Return the paths, escaped as in a tag, of rules that the model knows and that are gone."""
        present_paths = {
            escape_attribute(path) for path in (*(rule.path for rule in self.files.rules), *self._list_unread())
        }
        return [path for path in self.known_blocks if path not in present_paths]

    def _list_unread(self) -> list[str]:
        return [problem.path for problem in self.files.problems]

    def list_rules(self, *, only_told: bool = False) -> tuple[LoadedRule, ...]:
        """Return every rule with its position and the reason for it. `only_told`: without rules that are not sent."""
        announced_paths = {
            choice.rule.path for choice in self.choices if escape_attribute(choice.rule.path) in self.known_blocks
        }
        return list_loaded(self.files, self.choices, earlier_paths=announced_paths, only_told=only_told)


def find_known_rules(system: str, messages: Sequence[Message]) -> dict[str, str]:
    """Find the latest block of every rule in a conversation, by its path; without rules that were removed."""
    blocks: dict[str, str] = {}
    texts = (message.content for message in messages if isinstance(message, UserMessage))
    for text in (system, *(text for text in texts if "<rule" in text or "<removed_rule" in text)):
        blocks |= {match[1]: match[0] for match in _BLOCK.finditer(text)}
        for path in _REMOVED.findall(text):
            blocks.pop(path, None)
    return blocks


async def review_rules(
    context: TurnContext, system: str, paths: Iterable[str], prompt: str = "", *, nearby_paths: Sequence[str] = ()
) -> RuleReview:
    """Load the present rules and decide on them for these paths and the words of a prompt.

    `nearby_paths`: further files whose folders are searched for rule files.
    """
    known_blocks = find_known_rules(system, context.state.messages)
    relevant_paths = tuple(paths)
    known_paths = [path for path in known_blocks if not path.startswith(("/", "~"))]
    workspace = context.terminal.host.workspace
    nearby_paths = (*relevant_paths[-MAX_NEAR:], *known_paths, *nearby_paths)
    files = await asyncio.to_thread(
        load_rule_files, workspace, context.permissions.rule_check, nearby_paths=nearby_paths
    )
    referenced_paths = find_mentioned_rules(files, set(find_references(prompt)))
    return RuleReview(
        files=files,
        choices=choose_rules(files, RuleOccasion(relevant_paths, referenced_paths)),
        known_blocks=known_blocks,
    )


async def render_rule_news(context: TurnContext, system: str, paths: Iterable[str], prompt: str = "") -> list[str]:
    """Render the changes of rules for the model, [] = none. Emits `rules.loaded` if the list of rules changed."""
    context.memory.relevant_paths, context.memory.are_rules_due = tuple(paths), False
    review = await review_rules(context, system, context.memory.relevant_paths, prompt)
    rows = review.list_rules(only_told=True)
    if rows != context.state.rules:
        context.emit(RulesLoaded(rules=rows))
    (fresh, changed_blocks), removed_paths = review.find_news(), review.find_removed()
    if not (fresh or changed_blocks or removed_paths):
        return []
    return [wrap_tag("rules", render("reminders/rules", fresh=fresh, changed=changed_blocks, removed=removed_paths))]


async def append_rule_news(context: TurnContext, system: str) -> None:
    """Append a message with the rules for files that came to hand since the last one."""
    known_paths = context.memory.relevant_paths
    paths = tuple(dict.fromkeys((*known_paths, *list_relevant_paths(context))))
    if paths != known_paths or context.memory.are_rules_due:
        for part in await render_rule_news(context, system, paths):
            context.emit(MessageAppended(message=UserMessage(content=part, origin="program")))


def list_relevant_paths(context: TurnContext, *path_groups: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct paths that this turn is about: `path_groups`, files that the model has read, pending
    files."""
    own_groups = (context.memory.read_digests, context.state.changes)
    return tuple(dict.fromkeys(path for group in (*path_groups, *own_groups) for path in group))


async def fetch_rules(
    permissions: CallPermissions, names: tuple[str, ...], nearby_paths: tuple[str, ...]
) -> FetchedRules:
    """Find rules by path or name, with their imports. `nearby_paths`: files whose folders are searched as well."""
    workspace = permissions.terminal.host.workspace
    files = await asyncio.to_thread(
        load_rule_files, workspace, permissions.rule_check, nearby_paths=(*nearby_paths, *names)
    )
    paths = find_mentioned_rules(files, [name.removeprefix("@").removeprefix("./") for name in names])
    rules = [rule for rule in files.rules if rule.path in paths or rule.owner in paths]
    return FetchedRules(
        texts=tuple(render_rule(rule) for rule in rules),
        paths=tuple(rule.path for rule in rules),
        unknown=tuple(
            name for name in names if not find_mentioned_rules(files, [name.removeprefix("@").removeprefix("./")])
        ),
        known=tuple(rule.path for rule in files.rules if not rule.owner),
    )
