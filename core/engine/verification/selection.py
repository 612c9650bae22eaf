"""The subject of a verification: the changes that may be accepted by it, and the checks that judge them.

The judged text is exactly what would be written to the project: changes over which a check of the session passed as
they are now, without what is protected, in conflict or broken. Where all were edited since, the last tests that passed
judge all of them; where no check ran, or none that is one check alone, those that the configuration names as whole
commands do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from core.protocol.commands import ChangesVerify
from core.protocol.queries import VerificationAnswer, VerificationQuery
from core.protocol.renames import list_changes
from core.protocol.review import Change
from core.shadow.review.change_groups import group_changes
from core.shell.verification.single_check import NotACheck, SingleCheck, parse_checks
from core.state.session import SessionState

MAX_CHECKS: Final = 4
NOTHING = "Nothing waits that a check could verify: what is red, in conflict or broken is decided on by itself."
NO_CHECK = "No check has passed over what waits as it is now, so there is none to run again."
NOT_ALONE = "{command} is not run again: it {reason}. What counts is a check and nothing else."


class VerificationPlan(Struct, frozen=True, kw_only=True):
    """`chosen`: the changes to be judged, as a list shows them; `text`: all paths that belong to them. `refused`: why
    nothing can be verified, as a sentence."""

    checks: tuple[SingleCheck, ...] = ()
    chosen: tuple[Change, ...] = ()
    text: dict[str, Change] = {}
    refused: str = ""

    def describe(self) -> VerificationAnswer:
        """Return the plan as it is told before it is carried out."""
        commands = tuple(each.describe() for each in self.checks)
        paths = tuple(each.path for each in self.chosen)
        return VerificationAnswer(commands=commands, paths=paths, refused=self.refused)


def plan_verification(
    state: SessionState, patterns: Sequence[str], wanted: ChangesVerify | VerificationQuery
) -> VerificationPlan:
    """Return what would be run, and what it would judge. `patterns`: the user's own of commands that check."""
    able = [each for each in list_changes(state.changes) if _may_be_accepted(each, wanted.deletions)]
    if not able:
        return VerificationPlan(refused=NOTHING)
    checked = [each for each in able if each.check is not None and each.check.has_passed]
    commands = _list_commands(state, checked)
    parsed = {each: parse_checks(each, patterns=patterns, workspace=state.workspace) for each in commands}
    checks = [check for found in parsed.values() if not isinstance(found, NotACheck) for check in found]
    if not checks:
        checks = [check for each in patterns if not _has_wildcard(each) for check in _parse_configured(each, patterns)]
    if not checks and not commands:
        return VerificationPlan(refused=NO_CHECK)
    if not checks:
        return VerificationPlan(refused=_explain_refusal(parsed))
    if wanted.tests_only and all(each.result.kind != "tests" for each in checks):
        return VerificationPlan(refused="No tests have passed over what waits as it is now; other checks prove less.")
    chosen = checked or able
    text = {each.path: each for each in group_changes(state.changes, chosen, accepts=True)}
    checks = list({each.command: each for each in checks}.values())
    return VerificationPlan(checks=tuple(checks[:MAX_CHECKS]), chosen=tuple(chosen), text=text)


def _parse_configured(command: str, patterns: Sequence[str]) -> tuple[SingleCheck, ...]:
    checks = parse_checks(command, patterns=patterns)
    return () if isinstance(checks, NotACheck) else checks


def _may_be_accepted(change: Change, deletions: bool) -> bool:
    is_deleted = change.operation == "delete" and not deletions
    return not (change.protected or change.conflict or change.broken or is_deleted)


def _list_commands(state: SessionState, checked: Sequence[Change]) -> list[str]:
    """List the checks of these changes, and the last tests that passed in the session, which later checks hide."""
    found = dict.fromkeys(each.check.build_command() for each in checked if each.check is not None)
    passed = (
        name for turn in reversed(state.turns) for name, run in reversed(turn.checks.items()) if not run.exit_code
    )
    tests = next((each for each in passed if _is_of_tests(each, state.workspace)), "")
    return list(dict.fromkeys(([tests] if tests else []) + list(found)))


def _is_of_tests(command: str, workspace: str) -> bool:
    checks = parse_checks(command, workspace=workspace)
    return not isinstance(checks, NotACheck) and any(each.result.kind == "tests" for each in checks)


def _explain_refusal(parsed: Mapping[str, tuple[SingleCheck, ...] | NotACheck]) -> str:
    reasons = [(name, found.reason) for name, found in parsed.items() if isinstance(found, NotACheck)]
    command, reason = reasons[0]
    return NOT_ALONE.format(command=f"`{' '.join(command.split())}`", reason=reason)


def _has_wildcard(pattern: str) -> bool:
    return any(sign in pattern for sign in "*?[")
