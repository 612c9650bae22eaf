"""Run checks of the session again, each alone in a clean layer, and accept the changes that they prove.

The judged text is exactly what would be written to the project: changes over which a check of the session passed as
they are now, without protected, conflicting and broken ones. Where all were edited since, the last tests that passed
judge all of them. Where no check ran, or none that is a single check, the checks that the configuration names as whole
commands judge them. Changes are accepted only if text and disk are still those that the checks ran over.

A verification runs in parallel to turns and commands. It is stopped like a command, and then accepts nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.engine.session.session import Session
from core.errors import AgentTuiError
from core.protocol.commands import ChangesVerify
from core.protocol.events import Notice, VerificationFinished, VerificationProgressed, VerificationRecorded
from core.protocol.events.verification import Verification
from core.protocol.queries import VerificationAnswer, VerificationQuery
from core.protocol.renames import list_changes
from core.protocol.review import Change
from core.shadow.content.paths import format_paths
from core.shadow.review.verdict_plan import group_changes
from core.shell.verification.clean_layer import NO_BOX
from core.shell.verification.clean_run import build_verification, run_clean
from core.shell.verification.disk_digest import DiskDigest
from core.shell.verification.single_check import NotACheck, SingleCheck, parse_checks
from core.state.session import SessionState
from core.text.counting import count

MAX_CHECKS: Final = 4
NOTHING = "No pending change can be verified: protected, conflicting and broken changes are decided one by one."
NO_CHECK = "No check has passed on the current changes, so there is none to run again."
CHANGED_MEANWHILE: Final = (
    "The pending changes or the project changed while the checks ran, so nothing was accepted. Try again."
)
NOT_WRITTEN: Final = "The checks passed, but these could not be written for the reasons shown before:"
STOPPED: Final = "The checks were stopped, so nothing was accepted."
FindRefusal = Callable[[str], Awaitable[str | None]]


class Verifier:
    """One `changes.verify`. Call `run` once. `find_refusal` returns why a hook refuses a command."""

    def __init__(self, session: Session, command: ChangesVerify, find_refusal: FindRefusal) -> None:
        self._session = session
        self._command = command
        self._find_refusal = find_refusal
        self._disk = DiskDigest(session.workspace)
        self._disk_before = ""
        self._accepted: tuple[str, ...] = ()
        self._is_over = False

    async def run(self) -> None:
        """Run the checks and accept what they prove. Always emits `verification.finished`."""
        session, reason = self._session, STOPPED
        if session.is_verifying:  # the event of the verification that runs already answers both commands
            return
        session.is_verifying = True
        try:
            reason = await self._verify()
        except AgentTuiError as problem:
            reason = problem.format_with_hint()
        finally:
            session.is_verifying, self._is_over = False, True
            session.emit_outside_turn(VerificationProgressed(command=""))
            if reason:
                session.emit_outside_turn(Notice(level="warning", message=reason))
            session.emit_outside_turn(VerificationFinished(accepted=self._accepted, reason=reason))

    async def _verify(self) -> str:
        """Verify, and return why some changes were not accepted, "" = all were."""
        session = self._session
        if not await session.terminal.find_box():
            return NO_BOX
        session.check_disk()
        plan = plan_verification(session.state, session.settings.commands.checks, self._command)
        if plan.refused:
            return plan.refused
        self._disk_before = await asyncio.to_thread(self._disk.compute)
        results = [await self._check(check, plan) for check in plan.checks]
        proven = [change for change in plan.chosen if self._is_proven(change, results)]
        reasons = _list_reasons(results)
        if proven:
            reasons += await self._accept(plan, proven, results)
        left_count = len(plan.chosen) - len(self._accepted)
        if left_count and not reasons:
            verb = "is" if left_count == 1 else "are"
            reasons = [f"{count('file', left_count)} of the pending ones {verb} not covered by them."]
        return " ".join(reasons) if left_count else ""

    def _is_proven(self, change: Change, results: Sequence[Verification]) -> bool:
        covering = [result for result in results if result.build_check().covers(change.path)]
        kinds = {result.kind for result in covering}
        is_enough = "tests" in kinds if self._command.tests_only else bool(kinds)
        return is_enough and all(result.is_proof for result in covering)

    # one check

    async def _check(self, check: SingleCheck, plan: VerificationPlan) -> Verification:
        """Return the result of one check over this content: the recorded one if it passed, else that of a run. A failed
        check is run again, since a program may have been installed meanwhile."""
        digest = self._digest_content(check.command, plan)
        verification = self._session.review.verifications.get(check.command)
        if verification is not None and verification.outcome == "passed" and digest and verification.content == digest:
            return verification
        result = await self._run_check(check, plan, digest)
        self._session.emit_outside_turn(VerificationRecorded(result=result))
        return result

    def _digest_content(self, command: str, plan: VerificationPlan) -> str:
        """Return the digest of everything that the result depends on; "" if the disk can't be digested."""
        if not self._disk_before:
            return ""
        text = [(path, change.pending) for path, change in sorted(plan.text.items())]
        environment = sorted(self._session.terminal.host.build_environment().items())
        return hashlib.sha256(repr((command, text, environment, self._disk_before)).encode()).hexdigest()

    async def _run_check(self, check: SingleCheck, plan: VerificationPlan, digest: str) -> Verification:
        command, session = check.command, self._session

        def report_progress(text: str) -> None:
            session.emit_outside_turn(VerificationProgressed(command=command, text=text))

        report_progress("")
        if (refusal := await self._find_refusal(command)) is not None:
            problem = f"`{command}` was not run again: {refusal}"
            return Verification(command=command, outcome="unclear", problem=problem)
        result = await run_clean(session.terminal.host, plan.text, command, report_progress)
        host = session.terminal.host
        verification = build_verification(command, check.result, text=plan.text, result=result, host=host)
        return replace(verification, content=digest)

    # acceptance of proven changes

    async def _accept(
        self, plan: VerificationPlan, proven: Sequence[Change], results: Sequence[Verification]
    ) -> list[str]:
        """Accept changes, queued after earlier effects, if nothing has changed since. Return why not."""
        session, reasons, completion = self._session, list[str](), asyncio.Event()
        paths = tuple(change.path for change in proven)

        async def accept() -> None:
            has_changed = await self._has_changed(plan)
            if has_changed or self._is_over:  # a stopped verification accepts nothing
                reasons.append(CHANGED_MEANWHILE)
                return
            session.log.sync()
            session.accept_all(None, paths)
            self._accepted = tuple(path for path in paths if path not in session.review.changes)
            if self._accepted:
                session.emit(Notice(level="info", message=_describe_proof(self._accepted, results, plan)))

        async def settle() -> None:
            try:
                if inspect.isawaitable(result := session.promotion_hooks.guard(lambda: list(paths), accept)()):
                    await result
            finally:
                completion.set()

        session.tasks.schedule(settle)
        await completion.wait()
        left_paths = [path for path in paths if path not in self._accepted]
        return reasons or ([f"{NOT_WRITTEN} {format_paths(left_paths)}."] if left_paths else [])

    async def _has_changed(self, plan: VerificationPlan) -> bool:
        """Return True if the judged changes or the disk have changed since the checks ran."""
        disk = await asyncio.to_thread(self._disk.compute)
        now = self._session.review.changes
        is_same = all(
            (current_change := now.get(path)) is not None
            and (current_change.base, current_change.pending) == (change.base, change.pending)
            for path, change in plan.text.items()
        )
        return not is_same or disk != self._disk_before


def _list_reasons(results: Sequence[Verification]) -> list[str]:
    reasons = [result.problem for result in results if result.problem]
    for result in results:
        if result.outcome == "passed" and result.changed_here:
            names = format_paths(result.changed_here)
            reasons.append(
                f"`{result.command}` passed, but with tests or settings changed here ({names}): review "
                "and accept these yourself, then it can be verified."
            )
    return reasons


def _format_extent(result: Verification, plan: VerificationPlan) -> str:
    is_part = any(check.narrowed_by for check in plan.checks if check.command == result.command)
    facts = ([f"{result.passed:,} passed"] if result.passed else []) + (["part of the tests"] if is_part else [])
    return f" ({', '.join(facts)})" if facts else ""


def _describe_proof(paths: Sequence[str], results: Sequence[Verification], plan: VerificationPlan) -> str:
    ran = [f"`{result.command}`{_format_extent(result, plan)}" for result in results if result.is_proof]
    return f"Verified by {', '.join(ran)}, run again in a clean layer, and written: {format_paths(paths)}."


class VerificationPlan(Struct, frozen=True, kw_only=True):
    """The checks and what they judge. `chosen`: the judged changes, as a list shows them; `text`: the changes of all
    paths that belong to them. `refused`: why nothing can be verified, as a sentence."""

    checks: tuple[SingleCheck, ...] = ()
    chosen: tuple[Change, ...] = ()
    text: dict[str, Change] = {}
    refused: str = ""

    def describe(self) -> VerificationAnswer:
        """Return the plan as the answer to a query."""
        commands = tuple(check.describe() for check in self.checks)
        paths = tuple(change.path for change in self.chosen)
        return VerificationAnswer(commands=commands, paths=paths, refused=self.refused)


def plan_verification(
    state: SessionState, patterns: Sequence[str], request: ChangesVerify | VerificationQuery
) -> VerificationPlan:
    """Choose the checks, and the changes that they judge. `patterns`: the user's patterns of check commands."""
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
        return VerificationPlan(refused="No tests have passed on the pending changes; other checks prove less.")
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
    """List the checks of these changes, and the last tests that passed in the session, which later checks may
    replace."""
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
    reasons = [result.explain(name) for name, result in checks_by_command.items() if isinstance(result, NotACheck)]
    return f"{reasons[0]} Only a check on its own counts."


def _has_wildcard(pattern: str) -> bool:
    return any(sign in pattern for sign in "*?[")
