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
from core.shadow.review.verdict_plan import group_changes
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
        commands = tuple(check.describe() for check in self.checks)
        paths = tuple(change.path for change in self.chosen)
        return VerificationAnswer(commands=commands, paths=paths, refused=self.refused)


def plan_verification(
    state: SessionState, patterns: Sequence[str], request: ChangesVerify | VerificationQuery
) -> VerificationPlan:
    """Return what would be run, and what it would judge. `patterns`: the user's own of commands that check."""
    candidates = [change for change in list_changes(state.changes) if _may_be_accepted(change, request.deletions)]
    if not candidates:
        return VerificationPlan(refused=NOTHING)
    checked_changes = [change for change in candidates if change.check is not None and change.check.has_passed]
    commands = _list_commands(state, checked_changes)
    checks_by_command = {
        command: parse_checks(command, patterns=patterns, workspace=state.workspace) for command in commands
    }
    checks = [check for result in checks_by_command.values() if not isinstance(result, NotACheck) for check in result]
    if not checks:
        checks = [
            check
            for pattern in patterns
            if not _has_wildcard(pattern)
            for check in _parse_configured(pattern, patterns)
        ]
    if not checks and not commands:
        return VerificationPlan(refused=NO_CHECK)
    if not checks:
        return VerificationPlan(refused=_explain_refusal(checks_by_command))
    if request.tests_only and all(check.result.kind != "tests" for check in checks):
        return VerificationPlan(refused="No tests have passed over what waits as it is now; other checks prove less.")
    selection = checked_changes or candidates
    text = {change.path: change for change in group_changes(state.changes, selection, accepts=True)}
    checks = list({check.command: check for check in checks}.values())
    return VerificationPlan(checks=tuple(checks[:MAX_CHECKS]), chosen=tuple(selection), text=text)


def _parse_configured(command: str, patterns: Sequence[str]) -> tuple[SingleCheck, ...]:
    checks = parse_checks(command, patterns=patterns)
    return () if isinstance(checks, NotACheck) else checks


def _may_be_accepted(change: Change, deletions: bool) -> bool:
    is_deleted = change.operation == "delete" and not deletions
    return not (change.protected or change.conflict or change.broken or is_deleted)


def _list_commands(state: SessionState, checked_changes: Sequence[Change]) -> list[str]:
    """List the checks of these changes, and the last tests that passed in the session, which later checks hide."""
    commands = dict.fromkeys(change.check.build_command() for change in checked_changes if change.check is not None)
    passed_commands = (
        name for turn in reversed(state.turns) for name, run in reversed(turn.checks.items()) if not run.exit_code
    )
    tests = next((command for command in passed_commands if _is_of_tests(command, state.workspace)), "")
    return list(dict.fromkeys(([tests] if tests else []) + list(commands)))


def _is_of_tests(command: str, workspace: str) -> bool:
    checks = parse_checks(command, workspace=workspace)
    return not isinstance(checks, NotACheck) and any(check.result.kind == "tests" for check in checks)


def _explain_refusal(checks_by_command: Mapping[str, tuple[SingleCheck, ...] | NotACheck]) -> str:
    reasons = [(name, result.reason) for name, result in checks_by_command.items() if isinstance(result, NotACheck)]
    command, reason = reasons[0]
    return NOT_ALONE.format(command=f"`{' '.join(command.split())}`", reason=reason)


def _has_wildcard(pattern: str) -> bool:
    return any(sign in pattern for sign in "*?[")
