"""Policy: whether a granted call may run, must be asked about, or is refused. It decides and never acts.

The strictest rule that speaks of a call wins: deny, then ask, then allow. A compound command is taken apart and every
part must pass; what can't be taken apart with certainty is never allowed by a rule (SAFETY M7). What no rule speaks of
is decided by the floor: what only reads or lands in the shadow runs, a command that nothing contains is always asked
about, and what leaves the machine is refused.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence

from msgspec import Struct

from core.errors import CommandRejected
from core.modes import Access
from core.permissions.rules import Choice, Kind, Rule, of_kind, strictest
from core.permissions.rules import parse_rule as parse_rule  # noqa: PLC0414 (the grammar belongs to the policy)
from core.permissions.shell import Parts, take_apart, unquoted

_KIND_OF: dict[Access, Kind] = {Access.READ: "Read", Access.PROPOSE: "Write"}
UNCERTAIN = "This command can't be taken apart with certainty, so no rule can allow it."
HIDDEN = "This command can't be taken apart with certainty, and there are commands that a rule asks about or refuses."
SECRET = "Files of this name usually hold secrets."


class Decided(Struct, frozen=True, kw_only=True):
    """`reason` is one sentence for the user and the model."""

    choice: Choice
    reason: str = ""


class Terms(Struct, frozen=True, kw_only=True):
    """How a command would run. `by_hand`: commands are left to the user. `unasked`: those that are well contained need
    no question. `directory`: where it starts, relative to the workspace. `remembered`: what the user said for good of
    this very call."""

    contained: bool
    by_hand: bool = False
    unasked: bool = False
    directory: str = "."
    remembered: Choice | None = None


def decide(access: Access, subject: str, terms: Terms, *, rules: Sequence[Rule] = ()) -> Decided:
    """What to do with a call that the mode grants. `subject` is its path or command, exactly."""
    if access is not Access.EXEC:
        return decide_path(access, subject, rules=rules) if access in _KIND_OF else _floor(access)
    if terms.by_hand:
        return Decided(choice="deny", reason="The user runs the commands here: say which one to run, and why.")
    spoken = _of_command(subject, rules, terms)
    if spoken is None or (spoken.choice == "allow" and not terms.contained):
        return _command_floor(terms)
    return spoken


def check_pattern(pattern: str, command: str, choice: Choice) -> None:
    """Raise `CommandRejected` for a pattern that does not speak of this very command, `ConfigError` for none at all."""
    rule = parse_rule(f"Shell({pattern})", choice)
    if decide(Access.EXEC, command, Terms(contained=True), rules=[rule]).choice == choice:
        return
    whole = choice == "allow" and rule.matches(command.strip())
    raise CommandRejected(
        f"the pattern {pattern!r} does not {'allow every part of' if choice == 'allow' else 'match'} this command.",
        hint=UNCERTAIN if whole else "`*` stands for anything; the parts of a compound command each have to match.",
        code="pattern_does_not_match",
    )


def decide_path(access: Access, path: str, *, rules: Sequence[Rule], is_secret: bool = False) -> Decided:
    """What to do with a read or an edit of one file, by its workspace-relative path."""
    matching = [rule for rule in of_kind(rules, _KIND_OF[access]) if rule.matches(path)]
    if (rule := strictest(matching)) is not None:
        return Decided(choice=rule.choice, reason=_said(rule))
    if is_secret and access is Access.READ:
        return Decided(choice="ask", reason=SECRET)
    return Decided(choice="allow")


def _said(rule: Rule) -> str:
    where = f" ({rule.source})" if rule.source else ""
    return f"The rule {rule}{where} says so."


def _of_command(command: str, rules: Sequence[Rule], terms: Terms) -> Decided | None:
    """What the rules say of a command; None: nothing."""
    parts, directory = take_apart(command), terms.directory
    rule = strictest(_stricter(command, parts, rules, directory))
    if terms.remembered == "deny" and (rule is None or rule.choice != "deny"):
        return Decided(choice="deny", reason="The user refused exactly this command for good.")
    if rule is not None:
        return Decided(choice=rule.choice, reason=_said(rule))
    if terms.remembered is not None:
        return Decided(choice=terms.remembered, reason="The user allowed exactly this command for good.")
    if not (parts.certain and parts.plain) and of_kind(rules, "Shell", "ask", "deny"):
        return Decided(choice="ask", reason=HIDDEN)
    return _allowed(command, parts, rules, directory)


def _allowed(command: str, parts: Parts, rules: Sequence[Rule], directory: str) -> Decided | None:
    allowing = of_kind(rules, "Shell", "allow")
    if any("*" not in rule.pattern and rule.pattern == command.strip() for rule in allowing):
        return Decided(choice="allow", reason=f"The rule Shell({command.strip()}) says so.")
    if parts.certain and _all_pass(parts, rules, allowing, directory):
        return Decided(choice="allow", reason="Your rules allow every part of it.")
    return None


def _stricter(command: str, parts: Parts, rules: Sequence[Rule], directory: str) -> Iterable[Rule]:
    """The rules that ask about a command or refuse it, for any part of it."""
    texts = {command.strip(), *parts.commands, *map(unquoted, parts.commands)}
    yield from (rule for rule in of_kind(rules, "Shell", "ask", "deny") if any(map(rule.matches, texts)))
    for kind, paths in (("Write", parts.writes), ("Read", parts.reads)):
        places = [place for path in paths if (place := _place(path, directory)) is not None]
        yield from (rule for rule in rules if rule.kind == kind and rule.choice != "allow" and _any(rule, places))


def _any(rule: Rule, places: Iterable[str]) -> bool:
    return any(map(rule.matches, places))


def _all_pass(parts: Parts, rules: Sequence[Rule], allowing: Sequence[Rule], directory: str) -> bool:
    writable = of_kind(rules, "Write", "allow")
    for path in parts.writes:
        place = _place(path, directory)
        if place is None or not any(rule.matches(place) for rule in writable):
            return False
    if any(_place(path, directory) is None for path in parts.reads):
        return False
    return all(any(rule.matches(each) for rule in allowing) for each in parts.commands)


def _place(path: str, directory: str) -> str | None:
    """A redirection's file, relative to the workspace; None: it lies elsewhere."""
    place = posixpath.normpath(posixpath.join(directory, path))
    return None if place.startswith(("/", "..")) else place


def _floor(access: Access) -> Decided:
    match access:
        case Access.ASK | Access.TODO | Access.PLAN | Access.JOB | Access.PROBE:
            return Decided(choice="allow")
        case _:
            return Decided(choice="deny", reason="This program has no such access.")


def _command_floor(terms: Terms) -> Decided:
    if terms.contained and terms.unasked:
        return Decided(choice="allow", reason="What this command changes is held for the review.")
    reason = "Each command is asked about." if terms.contained else "Nothing contains this command's effects."
    return Decided(choice="ask", reason=reason)
