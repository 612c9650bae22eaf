"""Prove the pending changes: run the project's check over variants of them, and record what it says about each hunk.

One proof runs at a time in a session. It begins at the end of a turn, or when a client asks, and gives way at once to
whatever the user does; what it has learned by then is kept, and the next one goes on from there. The check is the last
one of tests that ran in the session, else one that the configuration names as a whole command.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from core.clock import monotonic
from core.engine.session.dismissed_mutants import DismissedMutants
from core.engine.session.hooks import find_hook_refusal
from core.engine.session.session import Session
from core.engine.session.tasks import explain_fault
from core.errors import AgentTuiError, CommandRejected
from core.ids import new_id
from core.index.database import IndexFailed
from core.protocol.commands import ChangesProve
from core.protocol.events import EvidenceRecorded, ProofFinished, ProofProgressed
from core.protocol.evidence import CheckEvidence, HunkEvidence
from core.protocol.renames import list_changes
from core.protocol.review import Change, FileState
from core.shell.check_detection import detect_checks
from core.shell.verification.clean_layer import NO_BOX
from core.shell.verification.clean_run import list_acceptable_changes
from core.shell.verification.single_check import NotACheck, SingleCheck, parse_checks
from core.shell.verification.steering_files import is_test_file
from core.state.session import SessionState

if TYPE_CHECKING:
    from core.proof.hunk_classes import ChangedText

NOTHING: Final = "Nothing is pending, so there is nothing to prove."
NO_CHECK: Final = "No tests have run in this session, and `commands.checks` names none."
_PAUSE: Final = 0.25  # seconds between two reports


def start_proof(session: Session, request: ChangesProve) -> None:
    """Start a proof beside turns and commands; one that runs is stopped first."""
    session.proof_slot.start(partial(_run_proof, session, request))


def start_after_turn(session: Session) -> None:
    """Start a proof of what a turn left pending, where it is reviewed on a screen and its check may run unasked: not of
    a subagent, whose changes go into the session that started it."""
    is_wanted = not session.settings.proof.off and session.settings.commands.policy == "auto"
    if not is_wanted or not session.review.changes or _is_proven(session):
        return
    is_subagent = session.call_permissions.subagent_limits is not None
    is_reviewed = session.services.options.interactive and not session.services.boxes.is_in_place and not is_subagent
    check = _choose_check(session) if is_reviewed else None
    if check is not None and session.explain_unasked(check.command, ".") is None:
        start_proof(session, ChangesProve(session=session.id))


def _is_proven(session: Session) -> bool:
    """Return True if the last proof came to its end over the very text that is pending."""
    proof, changes = session.review.proof, list_acceptable_changes(session.review.changes)
    is_over = proof.finished is not None and not proof.finished.stopped
    return is_over and not proof.is_check_stale and proof.text == {path: one.pending for path, one in changes.items()}


def start_after_resume(session: Session) -> None:
    """Start a proof of pending changes that none has looked into: a background agent may have made them."""
    if session.review.proof.check is None:
        start_after_turn(session)


async def prove_now(session: Session) -> str:
    """Prove what is pending within the running turn; return why something was not looked into, "" = everything was."""
    await _run_proof(session, ChangesProve(session=session.id))
    finished = session.review.proof.finished
    return finished.reason if finished is not None else ""


async def _run_proof(session: Session, request: ChangesProve) -> None:
    """Prove, and record the end, whatever it is."""
    proof, reason, is_stopped = _Proof(session, request), "", False
    try:
        reason = await proof.run()
    except asyncio.CancelledError:
        is_stopped = True
    except AgentTuiError as problem:
        reason = problem.format_with_hint()
    except Exception as fault:  # a fault of ours in a proof must not end the session
        error = explain_fault(fault)
        session.report_error(error)
        reason = error.message
    proof.flush()
    session.emit_outside_turn(ProofProgressed(command=""))
    session.emit_outside_turn(ProofFinished(reason=reason, stopped=is_stopped))


class _Proof:
    """One proof. It is its own report: evidence is recorded in batches."""

    def __init__(self, session: Session, request: ChangesProve) -> None:
        self._session, self._request = session, request
        self._command = ""
        self._check: CheckEvidence | None = None
        self._hunks = dict[tuple[str, str], HunkEvidence]()
        self._text = dict[str, FileState]()
        self._places = dict[tuple[str, str], bool]()  # code by place: it was looked into
        self._reported_at = 0.0
        self._uses = dict[str, int]()  # of names whose contract is changed: the files with it

    async def run(self) -> str:
        """Prove, and return why something was not looked into, as a sentence, "" = everything was."""
        session, request = self._session, self._request
        session.check_disk()
        changes = list_acceptable_changes(session.review.changes)
        if not changes:
            return NOTHING
        from core.proof.findings import describe_unrun

        self._text = {path: change.pending for path, change in changes.items()}
        texts = await asyncio.to_thread(read_texts, session, list_changes(changes))
        chosen = [text for text in texts if not request.paths or text.change.path in request.paths]
        check, hunks = await asyncio.to_thread(describe_unrun, chosen)
        await self._count_uses(hunks)
        hunks = tuple(map(self._add_context, hunks))
        known = session.review.proof.hunks
        self._hunks = {(one.path, one.hunk): one for one in hunks if (one.path, one.hunk) not in known}
        check_command = _choose_check(session)
        command = request.check or (check_command.command if check_command is not None else "")
        if not command:
            problem = explain_no_check(session.state, session.settings.commands.checks)
            self._check = replace(check, problem=problem)
            return problem
        self.flush()
        return await self._prove(command, changes, chosen)

    async def _count_uses(self, hunks: Sequence[HunkEvidence]) -> None:
        """Count in how many files a name stands whose contract is changed, if the project has an index."""
        names = {name for hunk in hunks if (name := get_contract_name(hunk.contract))}
        if names:
            with suppress(IndexFailed):
                self._uses = await self._session.services.index.read(lambda reader: reader.count_files(names))

    def _add_context(self, evidence: HunkEvidence) -> HunkEvidence:
        """Add what the agent said of a hunk, and how often the names are used whose contract it changes."""
        evidence = replace(evidence, claim=self._session.state.find_claim(evidence.path, evidence.hunk))
        number = self._uses.get(get_contract_name(evidence.contract), 0)
        if number < 2 or " in " in evidence.contract:  # the one that defines it, or it is there already
            return evidence
        return replace(evidence, contract=f"{evidence.contract}, named in {number:,} files")

    async def _prove(self, command: str, changes: Mapping[str, Change], texts: Sequence[ChangedText]) -> str:
        from core.proof.findings import list_recorded
        from core.proof.prover import ProofBudget, Prover
        from core.proof.runs.commands import parse_command
        from core.proof.runs.variant_runs import VariantRuns

        session = self._session
        if not await session.terminal.find_box():
            return NO_BOX
        if (refusal := await find_refusal(session, command)) is not None:
            return f"`{command}` was not run: {refusal}"
        self._command = command
        self.flush()  # so that clients see that it runs, before the first run has ended
        proof = session.review.proof
        check, is_same_check = proof.check, proof.check is not None and proof.check.command == command
        runs = VariantRuns(session.terminal.host, changes, parse_command(command), list_recorded(texts))
        dismissed = DismissedMutants(session.workspace.root, is_persistent=not session.state.is_private)
        budget = ProofBudget(
            seconds=self._request.seconds or session.settings.proof.seconds,
            flaky=frozenset(check.flaky) if check is not None and is_same_check and check.tests else None,
            dismissed=await asyncio.to_thread(dismissed.load),
        )
        known = proof.list_known() if is_same_check else {}
        try:
            await runs.open()
            proven = await Prover(texts, runs, command, budget, self, known).prove()
        finally:
            await runs.close()
        return proven.check.problem or _explain_unknown(proven.hunks)

    # the report

    def report_hunk(self, evidence: HunkEvidence, /) -> None:
        """Record the evidence of a hunk. Evidence without a run replaces none that has one."""
        evidence, place = self._add_context(evidence), (evidence.path, evidence.hunk)
        if evidence.kind == "code" or place in self._places:
            self._places[place] = evidence.needed != "unknown" or bool(evidence.unknown)
        known = self._session.review.proof.hunks.get(place)
        is_bare = evidence.needed == "unknown" and not evidence.unknown
        if is_bare and known is not None and known.needed != "unknown":
            return
        self._hunks[place] = evidence
        self._report_soon()

    def report_check(self, evidence: CheckEvidence, /) -> None:
        """Record the evidence of the check."""
        self._check = evidence
        self._report_soon()

    def _report_soon(self) -> None:
        if monotonic() - self._reported_at >= _PAUSE:
            self.flush()

    def flush(self) -> None:
        """Record what was reported and is not recorded yet."""
        self._reported_at = monotonic()
        session = self._session
        if self._hunks or self._check is not None or self._text:
            hunks = tuple(self._hunks.values())
            event = EvidenceRecorded(check=self._check, hunks=hunks, text=self._text)
            self._hunks, self._check, self._text = {}, None, {}
            session.emit_outside_turn(event)
        if self._command:
            finished = sum(self._places.values())
            progress = ProofProgressed(command=self._command, finished=finished, total=len(self._places))
            session.emit_outside_turn(progress)


def _explain_unknown(hunks: Sequence[HunkEvidence]) -> str:
    reasons = dict.fromkeys(hunk.unknown for hunk in hunks if hunk.kind == "code" and hunk.unknown)
    return f"Some hunks were not looked into: {', '.join(reasons)}." if reasons else ""


async def find_refusal(session: Session, command: str) -> str | None:
    """Return why a rule or a hook of the user refuses a check that the program runs; None: none does."""
    denial = session.call_permissions.explain_denied_command(command)
    return denial or await find_hook_refusal(session.hooks, command, new_id("proof"))


def get_contract_name(contract: str) -> str:
    """Return the name that a contract is about, "" = it is about none: `signature of Shop.open` is about `open`."""
    name = contract.removeprefix("signature of ").removesuffix(" is gone")
    return name.rpartition(".")[2] if name != contract and " " not in name else ""


def read_texts(session: Session, changes: Sequence[Change]) -> list[ChangedText]:
    """Return changes with the bytes of their two sides. Reads files."""
    from core.proof.hunk_classes import ChangedText

    return [ChangedText(change, *session.shadow.read_sides(change)) for change in changes]


def _choose_check(session: Session) -> SingleCheck | None:
    return find_proof_check(session.state, session.settings.commands.checks)


def find_proof_check(state: SessionState, patterns: Sequence[str]) -> SingleCheck | None:
    """Return the check that says most of the pending changes: the last run of all tests in the session, else of a part
    of them, else the first that the configuration names as a whole command. `patterns`: those of the configuration."""
    checks = list(_list_test_checks(state, patterns))
    whole = next((check for check in checks if not _is_part(check)), None)
    if whole is not None or checks:
        return whole or checks[0]
    configured = (pattern for pattern in patterns if not any(sign in pattern for sign in "*?["))
    return next((check for pattern in configured for check in _parse(pattern, patterns, state)), None)


def explain_no_check(state: SessionState, patterns: Sequence[str]) -> str:
    """Return why `find_proof_check` finds none, as a sentence: no tests ran, or only in a command that is no check on
    its own."""
    for command in _list_commands(state):
        result = detect_checks(command, 0, extra=patterns)
        checks = parse_checks(command, patterns=patterns, workspace=state.workspace)
        if result is not None and result.kind == "tests" and isinstance(checks, NotACheck):
            return f"{checks.explain(command)} If you trust it, name it in `commands.checks`."
    return NO_CHECK


def _is_part(check: SingleCheck) -> bool:
    """Return True if a check runs only some of the tests: selected ones, or those of files that it names."""
    words = (word.partition("::")[0] for word in check.command.split() if not word.startswith("-"))
    return bool(check.narrowed_by) or any(is_test_file(word) for word in words)


def _list_test_checks(state: SessionState, patterns: Sequence[str]) -> Iterator[SingleCheck]:
    """Yield the checks of tests that ran in the session, the last one first."""
    for command in _list_commands(state):
        yield from (check for check in _parse(command, patterns, state) if check.result.kind == "tests")


def _list_commands(state: SessionState) -> Iterable[str]:
    """Return the commands with checks that ran in the session, without repeats, the last one first."""
    return dict.fromkeys(command for turn in reversed(state.turns) for command in reversed(turn.checks))


def _parse(command: str, patterns: Sequence[str], state: SessionState) -> tuple[SingleCheck, ...]:
    checks = parse_checks(command, patterns=patterns, workspace=state.workspace)
    return () if isinstance(checks, NotACheck) else checks


def refuse_unready(session: Session, request: ChangesProve) -> None:
    """Raise `CommandRejected` if a proof can't begin as things are."""
    if not session.review.changes:
        raise CommandRejected(NOTHING, code="nothing_to_prove")
    unknown = [path for path in request.paths if path not in session.review.changes]
    if unknown:
        raise CommandRejected(f"nothing is pending for {unknown[0]}.", code="change_unknown")
