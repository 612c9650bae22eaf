"""Policy: decides whether a granted call may run, must be asked about, or is refused. It never acts.

The strictest rule that matches a call wins: deny, then ask, then allow. A compound command is split and every part must
pass; a command that can't be split with certainty is allowed by no rule but `Shell(*)`, since a hidden part could do
anything.
Without a matching rule, calls that only read or change the shadow run, an uncontained command is always asked about,
and calls that leave the machine are refused.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence

from msgspec import Struct

from core.errors import CommandRejected
from core.modes import Access
from core.permissions.rules import (
    PermissionChoice,
    PermissionKind,
    PermissionRule,
    find_strictest,
    parse_rule,
    select_rules,
)
from core.permissions.shell_parser import CommandParts, split_command, strip_quotes

_KIND_OF: dict[Access, PermissionKind] = {Access.READ: "Read", Access.PROPOSE: "Write"}
EVERYTHING = "*"
UNCERTAIN_REASON = "This command can't be parsed reliably, so only the rule Shell(*) can allow it."
HIDDEN_REASON = "This command can't be parsed reliably, and you have rules that ask about or deny commands."
UNCONTAINED = "where it is not sandboxed"
SECRET_REASON = "Files with this name usually hold secrets."


class PolicyDecision(Struct, frozen=True, kw_only=True):
    """A decision. `reason`: one sentence for the user and the model."""

    choice: PermissionChoice
    reason: str = ""


class CommandTerms(Struct, frozen=True, kw_only=True):
    """The conditions of a command. `is_manual`: only the user runs commands. `is_unasked`: contained commands need no
    approval. `directory`: its working directory, relative to the workspace. `saved_choice`: the user's saved answer."""

    is_contained: bool
    is_manual: bool = False
    is_unasked: bool = False
    directory: str = "."
    saved_choice: PermissionChoice | None = None


def decide_call(
    access: Access, subject: str, terms: CommandTerms, *, rules: Sequence[PermissionRule] = ()
) -> PolicyDecision:
    """Decide on a call that the mode grants. `subject`: its exact path or command."""
    if access is not Access.EXEC:
        return decide_path(access, subject, rules=rules) if access in _KIND_OF else _decide_unruled(access)
    if terms.is_manual:
        return PolicyDecision(choice="deny", reason="The user runs the commands here: say which one to run, and why.")
    decision = _apply_command_rules(subject, rules, terms)
    if decision is None or (decision.choice == "allow" and not terms.is_contained):
        return _decide_unruled_command(terms)
    return decision


def check_pattern(pattern: str, command: str, choice: PermissionChoice) -> None:
    """Raise `CommandRejected` for a pattern that does not match this command, `ConfigError` for an invalid one."""
    rule = parse_rule(f"Shell({pattern})", choice)
    if decide_call(Access.EXEC, command, CommandTerms(is_contained=True), rules=[rule]).choice == choice:
        return
    is_full_match = choice == "allow" and rule.matches(command.strip())
    raise CommandRejected(
        f"the pattern {pattern!r} does not {'allow every part of' if choice == 'allow' else 'match'} this command.",
        hint=UNCERTAIN_REASON
        if is_full_match
        else "`*` matches anything; each part of a compound command has to match.",
        code="pattern_does_not_match",
    )


class ExternalTerms(Struct, frozen=True, kw_only=True):
    """The conditions of a call to a server's tool. `keeps_effects`: the mode allows effects. `is_reading`: the server
    declares that it changes nothing. `must_ask`: the server demands a question. `is_unasked`: the box contains the
    server, and contained calls need no approval. `host`: of a remote server; `caution`: why a rule alone does not allow
    sending data to it.
    """

    keeps_effects: bool
    is_reading: bool = False
    must_ask: bool = False
    is_unasked: bool = False
    host: str = ""
    caution: str | None = None


def decide_external(target: str, terms: ExternalTerms, *, rules: Sequence[PermissionRule]) -> PolicyDecision:
    """Decide on a call of `server:tool` that the mode grants."""
    rule = find_strictest(candidate for candidate in select_rules(rules, "Mcp") if candidate.matches(target))
    if rule is not None and rule.choice == "deny":
        return PolicyDecision(choice="deny", reason=_format_reason(rule))
    if not terms.keeps_effects and not terms.is_reading:
        return PolicyDecision(choice="deny", reason="This mode calls only tools that declare themselves read-only.")
    if terms.must_ask:
        return PolicyDecision(choice="ask", reason="Its server wants you to be asked every time.")
    if rule is not None and terms.caution is None:
        return PolicyDecision(choice=rule.choice, reason=_format_reason(rule))
    if terms.is_unasked:
        return PolicyDecision(choice="allow", reason="Sandboxed: this server's file changes go to review.")
    return PolicyDecision(choice="ask", reason=_explain_question(terms))


def _explain_question(terms: ExternalTerms) -> str:
    if not terms.host:
        return "Every call to a server's tool needs your approval."
    return f"It connects to {terms.host}, {UNCONTAINED if terms.caution is None else f'and {terms.caution}'}."


def decide_path(
    access: Access, path: str, *, rules: Sequence[PermissionRule], is_secret: bool = False
) -> PolicyDecision:
    """Decide on a read or an edit of one file, by its workspace-relative path."""
    matching = (rule for rule in select_rules(rules, _KIND_OF[access]) if rule.matches(path))
    if (rule := find_strictest(matching)) is not None:
        return PolicyDecision(choice=rule.choice, reason=_format_reason(rule))
    if is_secret and access is Access.READ:
        return PolicyDecision(choice="ask", reason=SECRET_REASON)
    return PolicyDecision(choice="allow")


def _format_reason(rule: PermissionRule) -> str:
    origin = f" ({rule.source})" if rule.source else ""
    return f"The rule {rule}{origin} applies."


def _apply_command_rules(command: str, rules: Sequence[PermissionRule], terms: CommandTerms) -> PolicyDecision | None:
    parts, directory = split_command(command), terms.directory
    rule = find_strictest(_iterate_stricter(command, parts, rules, directory))
    if terms.saved_choice == "deny" and (rule is None or rule.choice != "deny"):
        return PolicyDecision(choice="deny", reason="The user always denies exactly this command.")
    if rule is not None:
        return PolicyDecision(choice=rule.choice, reason=_format_reason(rule))
    if terms.saved_choice is not None:
        return PolicyDecision(choice=terms.saved_choice, reason="The user always allows exactly this command.")
    if not (parts.is_certain and parts.is_plain) and select_rules(rules, "Shell", "ask", "deny"):
        return PolicyDecision(choice="ask", reason=HIDDEN_REASON)
    return _find_allowing(command, parts, rules, directory)


def _find_allowing(
    command: str, parts: CommandParts, rules: Sequence[PermissionRule], directory: str
) -> PolicyDecision | None:
    allowing = select_rules(rules, "Shell", "allow")
    if any("*" not in rule.pattern and rule.pattern == command.strip() for rule in allowing):
        return PolicyDecision(choice="allow", reason=f"The rule Shell({command.strip()}) applies.")
    if parts.is_certain and _are_all_allowed(parts, rules, allowing, directory):
        return PolicyDecision(choice="allow", reason="Your rules allow every part of it.")
    if any(rule.pattern == EVERYTHING for rule in allowing):
        return PolicyDecision(choice="allow", reason=f"The rule Shell({EVERYTHING}) allows every command.")
    return None


def _iterate_stricter(
    command: str, parts: CommandParts, rules: Sequence[PermissionRule], directory: str
) -> Iterable[PermissionRule]:
    texts = {command.strip(), *parts.commands, *map(strip_quotes, parts.commands)}
    yield from (rule for rule in select_rules(rules, "Shell", "ask", "deny") if any(map(rule.matches, texts)))
    redirections: tuple[tuple[PermissionKind, Sequence[str]], ...] = (("Write", parts.writes), ("Read", parts.reads))
    for kind, paths in redirections:
        targets = [target for path in paths if (target := _resolve_path(path, directory)) is not None]
        yield from (rule for rule in select_rules(rules, kind, "ask", "deny") if any(map(rule.matches, targets)))


def _are_all_allowed(
    parts: CommandParts, rules: Sequence[PermissionRule], allowing: Sequence[PermissionRule], directory: str
) -> bool:
    writes, reads = ([_resolve_path(path, directory) for path in paths] for paths in (parts.writes, parts.reads))
    writable = select_rules(rules, "Write", "allow")
    return (
        all(target is not None and any(rule.matches(target) for rule in writable) for target in writes)
        and None not in reads
        and all(any(rule.matches(command) for rule in allowing) for command in parts.commands)
    )


def _resolve_path(path: str, directory: str) -> str | None:
    """Resolve a redirection's file relative to the workspace; None: it is outside."""
    target = posixpath.normpath(posixpath.join(directory, path))
    return None if target.startswith(("/", "..")) else target


def _decide_unruled(access: Access) -> PolicyDecision:
    # NET asks host by host, and a subagent's own calls are decided on one by one.
    free = {Access.ASK, Access.TODO, Access.PLAN, Access.JOB, Access.PROBE, Access.NET, Access.SPAWN}
    if access in free:
        return PolicyDecision(choice="allow")
    return PolicyDecision(choice="deny", reason="This program can't access that.")


def _decide_unruled_command(terms: CommandTerms) -> PolicyDecision:
    if terms.is_contained and terms.is_unasked:
        return PolicyDecision(choice="allow", reason="Sandboxed: file changes go to review.")
    reason = "Your settings ask before every command." if terms.is_contained else "This command is not sandboxed."
    return PolicyDecision(choice="ask", reason=reason)
