"""Rules as the model is told of them: in the system prompt when the session begins, later by a message.

What it was told stands in the conversation, so that is where it is looked up: a rule that a compaction or a rewind took
away is told anew, and so is one whose file changed. Nothing that was sent is ever rendered again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from core.agent.base.permissions import CallPermissions
from core.agent.base.prompt_tags import escape_attribute, render_rule, render_rule_block, wrap_tag
from core.agent.context.turn_context import TurnContext
from core.config.rules.imports import find_references
from core.config.rules.loading import load_rule_files
from core.config.rules.rule import RuleChoice, RuleFiles, RuleOccasion, choose_rules, find_named, list_loaded
from core.prompts import render
from core.protocol.events import LoadedRule, MessageAppended, RulesLoaded
from core.protocol.messages import Message, UserMessage
from core.tools.base import FetchedRules

MAX_NEAR = 500  # paths whose folders are looked into
_BLOCK = re.compile(r'<rule path="([^"]*)"[^>\n]*>\n.*?\n</rule>', re.DOTALL)
_REMOVED = re.compile(r'<removed_rule path="([^"]*)"/>')


class RuleReview(Struct, frozen=True, kw_only=True):
    """The rules for an occasion beside those that the model was told: by path as it stands in a tag, its block."""

    files: RuleFiles
    choices: tuple[RuleChoice, ...]
    told: dict[str, str]

    def find_news(self) -> tuple[list[str], list[str]]:
        """Return the blocks that the model does not know yet: those of new rules, and those of changed ones."""
        fresh, changed_blocks = [], []
        for choice in self.choices:
            known_block = self.told.get(escape_attribute(choice.rule.path))
            if known_block is None:
                fresh += [render_rule_block(choice)] if choice.binds or choice.is_listed else []
            elif known_block not in (render_rule_block(choice), render_rule(choice.rule)):
                changed_blocks.append(render_rule_block(choice) if choice.is_listed else render_rule(choice.rule))
        return fresh, changed_blocks

    def find_removed(self) -> list[str]:
        """Return the paths, as they stand in a tag, of rules that the model was told and that are no more."""
        present_paths = {
            escape_attribute(path) for path in (*(rule.path for rule in self.files.rules), *self._list_unread())
        }
        return [path for path in self.told if path not in present_paths]

    def _list_unread(self) -> list[str]:
        return [problem.path for problem in self.files.problems]

    def list_rules(self, *, only_told: bool = False) -> tuple[LoadedRule, ...]:
        """Return every rule with its place and the reason for it."""
        announced_paths = {
            choice.rule.path for choice in self.choices if escape_attribute(choice.rule.path) in self.told
        }
        return list_loaded(self.files, self.choices, earlier_paths=announced_paths, only_told=only_told)


def find_known_rules(system: str, messages: Sequence[Message]) -> dict[str, str]:
    """Find the block of each rule that the model was told last, by its path; without those that were taken back."""
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
    """Read the rules as they are now and decide on them for the paths at hand and the words of a prompt.

    `nearby_paths`: files whose folders are looked into beside those at hand.
    """
    known_blocks = find_known_rules(system, context.state.messages)
    at_hand = tuple(paths)
    known_paths = [path for path in known_blocks if not path.startswith(("/", "~"))]
    workspace = context.terminal.host.workspace
    nearby_paths = (*at_hand[-MAX_NEAR:], *known_paths, *nearby_paths)
    files = await asyncio.to_thread(
        load_rule_files, workspace, context.permissions.rule_check, nearby_paths=nearby_paths
    )
    referenced_paths = find_named(files, set(find_references(prompt)))
    return RuleReview(
        files=files, choices=choose_rules(files, RuleOccasion(at_hand, referenced_paths)), told=known_blocks
    )


async def render_rule_news(context: TurnContext, system: str, paths: Iterable[str], prompt: str = "") -> list[str]:
    """Render what the model has to be told of rules now; empty = nothing. Emits `rules.loaded` when that is news."""
    context.memory.paths_at_hand, context.memory.are_rules_due = tuple(paths), False
    review = await review_rules(context, system, context.memory.paths_at_hand, prompt)
    rows = review.list_rules(only_told=True)
    if rows != context.state.rules:
        context.emit(RulesLoaded(rules=rows))
    (fresh, changed_blocks), removed_paths = review.find_news(), review.find_removed()
    if not (fresh or changed_blocks or removed_paths):
        return []
    return [wrap_tag("rules", render("reminders/rules", fresh=fresh, changed=changed_blocks, removed=removed_paths))]


async def append_rule_news(context: TurnContext, system: str) -> None:
    """Append a message with the rules that the files speak to that came to hand since the model was told of any."""
    known_paths = context.memory.paths_at_hand
    paths = tuple(dict.fromkeys((*known_paths, *list_paths_at_hand(context))))
    if paths != known_paths or context.memory.are_rules_due:
        for part in await render_rule_news(context, system, paths):
            context.emit(MessageAppended(message=UserMessage(content=part, origin="program")))


def list_paths_at_hand(context: TurnContext, *path_groups: Iterable[str]) -> tuple[str, ...]:
    """Return the paths that this turn is about, each once: `path_groups` ones, what the model has read, what is
    pending."""
    own_groups = (context.memory.read_digests, context.state.changes)
    return tuple(dict.fromkeys(path for group in (*path_groups, *own_groups) for path in group))


async def fetch_rules(
    permissions: CallPermissions, names: tuple[str, ...], nearby_paths: tuple[str, ...]
) -> FetchedRules:
    """Find rules by path or name, with what they import. `nearby_paths`: files whose folders may have rules of their
    own."""
    workspace = permissions.terminal.host.workspace
    files = await asyncio.to_thread(
        load_rule_files, workspace, permissions.rule_check, nearby_paths=(*nearby_paths, *names)
    )
    paths = find_named(files, [name.removeprefix("@").removeprefix("./") for name in names])
    rules = [rule for rule in files.rules if rule.path in paths or rule.owner in paths]
    return FetchedRules(
        texts=tuple(render_rule(rule) for rule in rules),
        paths=tuple(rule.path for rule in rules),
        unknown=tuple(name for name in names if not find_named(files, [name.removeprefix("@").removeprefix("./")])),
        known=tuple(rule.path for rule in files.rules if not rule.owner),
    )
