"""Rules, and the choice of those that bind for an occasion, each with the reason."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Sequence

from msgspec import Struct
from msgspec.structs import replace

from core.protocol.events import LoadedRule, RuleKind
from core.protocol.paths import is_below
from core.text.path_patterns import matches

MAX_TOTAL_BYTES = 128 * 1024
MEMORY_REASON = "memory: a note you accepted"
LISTED = "listed: the agent fetches it when needed"
NAMED_KINDS = frozenset({"always", "globs", "described", "manual"})
_UNCONDITIONAL = frozenset({"always", "agents_md", "claude_md", "memory"})


class AgentRule(Struct, frozen=True, kw_only=True):
    """One rule with its cleaned text. `path` is relative to the workspace ("../AGENTS.md" is above it), or absolute for
    the user's own.

    `scope`: the directory that it applies to, relative to the project's top like `globs`, "" = all of it. `note`: what
    was stripped or cut; `owner`: the rule that imports it; `about`: a remark.
    """

    path: str
    kind: RuleKind
    text: str
    globs: tuple[str, ...] = ()
    description: str = ""
    scope: str = ""
    owner: str = ""
    note: str = ""
    about: str = ""

    @property
    def name(self) -> str:
        """The name for prompts: `tests` for `.cursor/rules/api/tests.mdc`."""
        return self.path.rpartition("/")[2].partition(".")[0]

    def find_match(self, paths: Sequence[str]) -> str:
        """Return the first of these paths (from the project's top) that the rule applies to, "" = none."""
        prefix = f"{self.scope}/" if self.scope else ""
        for path in paths:
            if path.startswith(prefix):
                spellings = (path, path[len(prefix) :])
                if not self.globs or any(matches(glob, spelt) for glob in self.globs for spelt in spellings):
                    return path
        return ""


class RuleFiles(Struct, frozen=True, kw_only=True):
    """All loaded rules in the order in which they bind, strongest last. `here`: the workspace relative to the project's
    top. `problems`: unreadable files with reasons."""

    rules: tuple[AgentRule, ...] = ()
    problems: tuple[LoadedRule, ...] = ()
    here: str = ""


class RuleOccasion(Struct, frozen=True):
    """The criteria of a choice: `paths` at hand, relative to the workspace, and paths of `named` rules."""

    paths: tuple[str, ...] = ()
    named: frozenset[str] = frozenset()


class RuleChoice(Struct, frozen=True, kw_only=True):
    """A rule with the decision on it. `is_listed`: the model gets only its description."""

    rule: AgentRule
    binds: bool
    reason: str
    is_listed: bool = False

    def to_loaded(self, position: int) -> LoadedRule:
        """Return the wire format. `position`: the number of the rule in the prompt, 0 = it is not in it."""
        rule = self.rule
        size = len(rule.text.encode())
        reason = "; ".join(filter(None, dict.fromkeys((self.reason, rule.about))))
        return LoadedRule(path=rule.path, kind=rule.kind, note=rule.note, size=size, reason=reason, position=position)


NO_OCCASION = RuleOccasion()


def choose_rules(files: RuleFiles, occasion: RuleOccasion = NO_OCCASION) -> tuple[RuleChoice, ...]:
    """Decide on every rule; equal texts bind once, and all of them within a total size."""
    paths = [_join(files.here, path) for path in occasion.paths]
    paths_by_text: dict[str, str] = {}
    remaining_bytes = MAX_TOTAL_BYTES
    choices = []
    for rule in files.rules:
        choice = _choose(rule, files.here, paths, occasion.named)
        size = len(rule.text.encode())
        if choice.binds and (same := paths_by_text.get(rule.text)):
            choice = RuleChoice(rule=rule, binds=False, reason=f"same as {same}")
        elif choice.binds and size > remaining_bytes:
            limit = f"left out: all rules together exceed {MAX_TOTAL_BYTES // 1024} KiB"
            choice = RuleChoice(rule=rule, binds=False, reason=limit)
        if choice.binds:
            paths_by_text[rule.text] = rule.path
            remaining_bytes -= size
        choices.append(choice)
    return tuple(choices)


def _choose(rule: AgentRule, current_directory: str, paths: Sequence[str], mentions: Collection[str]) -> RuleChoice:
    """Decide on one rule by itself."""
    if rule.path in mentions or rule.owner in mentions:
        return RuleChoice(rule=rule, binds=True, reason="named in the prompt")
    is_enclosing = not rule.scope or is_below(current_directory, rule.scope)
    match = rule.find_match(paths)
    if rule.kind in _UNCONDITIONAL:
        if is_enclosing:
            return RuleChoice(rule=rule, binds=True, reason=_explain_unconditional(rule))
        reason = f"for files in its folder, such as {match}" if match else "no file from its folder is in use"
        return RuleChoice(rule=rule, binds=bool(match), reason=reason)
    if rule.kind == "globs":
        patterns = ", ".join(rule.globs)
        reason = f"{match} matches {patterns}" if match else f"no file in use matches {patterns}"
        return RuleChoice(rule=rule, binds=bool(match), reason=reason)
    if rule.kind == "described":
        is_listed = is_enclosing or bool(match)
        return RuleChoice(rule=rule, binds=False, reason=LISTED, is_listed=is_listed)
    return RuleChoice(rule=rule, binds=False, reason=f"only when you mention it: @{rule.name}")


def _explain_unconditional(rule: AgentRule) -> str:
    match rule.kind:
        case "memory":
            return MEMORY_REASON
        case "always":
            return "always" if not rule.owner else f"imported by {rule.owner}"
        case _:
            return f"imported by {rule.owner}" if rule.owner else "applies to every file"


def find_mentioned_rules(files: RuleFiles, words: Collection[str]) -> frozenset[str]:
    """Return the paths of the rules that words denote: by name, by path, or by path without its suffix."""
    return frozenset(
        rule.path
        for rule in files.rules
        if not rule.owner and {rule.path, rule.path.rpartition(".")[0], _find_name(rule)} & set(words)
    )


def list_rule_names(files: RuleFiles) -> tuple[str, ...]:
    """Return the names of rules for prompts, without duplicates."""
    return tuple(dict.fromkeys(name for rule in files.rules if not rule.owner and (name := _find_name(rule))))


def _find_name(rule: AgentRule) -> str:
    return rule.name if rule.kind in NAMED_KINDS else ""


def list_loaded(
    files: RuleFiles, choices: Sequence[RuleChoice], *, earlier_paths: Collection[str] = (), only_told: bool = False
) -> tuple[LoadedRule, ...]:
    """Return the rules in wire format with their positions, followed by the unreadable files.

    `earlier_paths`: paths of rules that are in the prompt from earlier turns.
    """
    rows, position = [], 0
    for choice in choices:
        is_told = choice.binds or choice.is_listed or choice.rule.path in earlier_paths
        position += is_told
        if is_told or not only_told:
            row = choice.to_loaded(position if is_told else 0)
            is_older = choice.rule.path in earlier_paths and not choice.binds and not choice.is_listed
            rows.append(replace(row, reason=f"sent earlier in this session; {row.reason}") if is_older else row)
    return (*rows, *files.problems)


def _join(current_directory: str, path: str) -> str:
    """Return a workspace path relative to the project's top."""
    return posixpath.normpath(posixpath.join(current_directory, path))
