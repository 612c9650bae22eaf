"""The user's verdict on a fix after a run with it; a fix that does not help is reverted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.agent.base.user_channel import UserChannel
from core.ids import new_id
from core.protocol.debug import FIXED_QUESTION, ProbeRun
from core.protocol.documents import Option, Question
from core.protocol.events import CheckRecorded, FixJudged, Notice, QuestionAsked
from core.protocol.events.debug import FixOutcome
from core.protocol.review import Check, Origin
from core.sandbox.results import describe_end
from core.shell.command_host import CommandHost
from core.state.debugging import DebugState

PROCEED_OPTION: Final = Option(id="proceed", label="Proceed")
VERDICT_OPTIONS: Final = (Option(id="fixed", label="Mark as fixed"), Option(id="broken", label="Still broken"))
OUTCOME_BY_OPTION: Final[dict[str, FixOutcome]] = {"fixed": "fixed", "broken": "broken"}


class FixVerdict(Struct, frozen=True, kw_only=True):
    """The verdict on a fix. `message`: its text for the model."""

    outcome: FixOutcome
    message: str


class FixReview(Struct, frozen=True):
    """The review of a session's fix by the user. `digests`: by path, the digest of the content that the model has
    read."""

    host: CommandHost
    user: UserChannel
    digests: dict[str, str]

    @property
    def _debug(self) -> DebugState:
        return self.host.state.debug

    def revert(self, origin: Origin) -> tuple[str, ...]:
        """Revert pending changes that were made after a hypothesis was confirmed. Returns their paths."""
        shadow, reverted_paths = self.host.shadow, []
        for path, before in self._debug.fixes.items():
            change = self.host.state.changes.get(path)
            if change is None:
                continue
            target = before or change.base
            data = None if target.kind == "absent" else shadow.blobs.get(target.blob)
            shadow.edit(path, data, origin, target.mode if data else None)
            self.digests.pop(path, None)
            reverted_paths.append(path)
        return tuple(reverted_paths)

    def record(self, outcome: FixOutcome, origin: Origin, *, note: str = "") -> FixVerdict:
        """Record the verdict on the fix in the latest run with it; revert the fix if it did not help."""
        run = self._debug.fix_run
        if outcome == "fixed":
            probe_run = self._debug.runs.get(run)
            self._emit_check(run, (probe_run.command if probe_run else "") or "shown by the user", 0)
        reverted_paths = self.revert(replace(origin, tool="still_broken")) if outcome == "broken" else ()
        self.host.emit(FixJudged(run=run, outcome=outcome, taken_back=reverted_paths))
        if reverted_paths:
            self.host.emit(Notice(level="info", message=f"Still broken. {_format_reverted(reverted_paths)}"))
        message = {
            "fixed": "The user says the fault is gone. Remove the probes and finish with a short summary.",
            "broken": f"The user says the fault is still there. {_format_reverted(reverted_paths)} Set "
            "new hypotheses from what the runs have shown; edits are blocked until one of "
            "them is confirmed.",
            "unsure": "The user can't say whether the fault is gone; rely on what the runs have shown.",
        }[outcome]
        return FixVerdict(outcome=outcome, message=f"{message} The user adds: {note}" if note else message)

    def record_proof(self, run: ProbeRun) -> None:
        """Record a check if the command of the run failed before the fix."""
        before = (
            probe_run
            for probe_run in self._debug.runs.values()
            if not probe_run.after_fix and probe_run.command == run.command
        )
        has_failed_before = any(probe_run.exit_code not in {0, None} for probe_run in before)
        if run.after_fix and run.command and run.exit_code is not None and has_failed_before:
            self._emit_check(run.id, run.command, run.exit_code)

    def _emit_check(self, run: str, command: str, exit_code: int) -> None:
        if files := tuple(self._debug.fixes):
            check = Check(call=run, command=command, exit_code=exit_code, paths=files)
            self.host.emit(CheckRecorded(check=check))

    async def ask_for_verdict(self, origin: Origin) -> FixVerdict | None:
        """Ask the user about a fix that was run and has no verdict yet, None = there is no such fix."""
        debug, emit = self._debug, self.host.emit
        if not debug.awaits_fix_verdict:
            return None
        probe_run = debug.runs[debug.fix_run]
        before = next((run for run in reversed(debug.runs.values()) if not run.after_fix), None)
        if not self.user.is_interactive:
            emit(FixJudged(run=probe_run.id, outcome="unsure", by="program"))
            message = f"Nobody could be asked whether the fault is gone. {_format_run_end(probe_run, None)}."
            emit(Notice(level="info", message=message, hint="Check it yourself before you accept the change."))
            verdict_message = (
                "Nobody could be asked whether the fault is gone: rely on what the runs have shown, and say so."
            )
            return FixVerdict(outcome="unsure", message=verdict_message)
        ends = [_format_run_end(probe_run, None), *([_format_run_end(before, probe_run)] if before else [])]
        text = "\n".join(["Is the fault gone?", "", *ends])
        question = Question(id=FIXED_QUESTION, text=text, options=(*VERDICT_OPTIONS, PROCEED_OPTION))
        response = await self.user.ask(QuestionAsked(id=new_id("ask"), call=origin.call, questions=(question,)))
        answer = response.answers[0] if response.answers else None
        option = answer.options[0] if answer is not None and answer.options else "proceed"
        note = answer.text.strip() if answer else ""
        return self.record(OUTCOME_BY_OPTION.get(option, "unsure"), origin, note=note)


def _format_reverted(reverted_paths: Sequence[str]) -> str:
    return (
        f"The fix was reverted in {', '.join(reverted_paths)}."
        if reverted_paths
        else "Nothing of the fix was still pending."
    )


def _format_run_end(run: ProbeRun, other: ProbeRun | None) -> str:
    when = "after the fix" if run.after_fix else "before it"
    if not run.command:
        return f"{run.id}, {when}: shown by you"
    suffix = f" of `{run.command}`" if other is None or other.command != run.command else ""
    return f"{run.id}, {when}: {describe_end(run.exit_code, run.ended)}{suffix}"
