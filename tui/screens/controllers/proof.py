"""The controller of proofs: the check over each hunk is run, stopped and continued, shown, and what it proves accepted.

A proof gives way to the user: the first key stops it, and it goes on when nobody has typed for some seconds. One that
was stopped by its own key does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual import on

from core.protocol import commands, queries
from core.protocol.events import ProofFinished
from core.protocol.renames import list_changes
from core.state.proof import ProofSummary, summarize_proof
from core.text.counting import count
from tui.chat.prompt import Prompt
from tui.dialogs.evidence_page import build_evidence_page
from tui.dialogs.pages import ConfirmDialog, build_proof_output, build_proof_page
from tui.dialogs.picker import ActionPickerDialog, PickerOption
from tui.review import messages
from tui.screens.controller import Controller, ScreenContext, in_worker
from tui.text import format_path
from tui.timers import start_timer

if TYPE_CHECKING:
    from textual.timer import Timer

QUIET_SECONDS: Final = 5.0  # without a key, after which a stopped proof goes on
NO_CHECK_HINT: Final = "Tests, a type check, a build or a linter count, run by the agent or by you with !."
USAGE: Final = "Usage: /proof, /proof run, /proof stop, or /proof verify"
_WAYS: Final = (
    PickerOption("prove", "Run the check over each hunk", "says what tests notice; accepts nothing yet"),
    PickerOption("verify", "Run the tests again", "accepts the files that they pass over"),
)


class ProofController(Controller):
    """Has the check run over variants of the pending changes, and uses what it says."""

    def __init__(self, context: ScreenContext) -> None:
        super().__init__(context)
        self._is_stop_sent = self._is_due = self._is_held = False
        self._seen_end: tuple[str, ProofFinished | None] = ("", None)  # the session, and the end of its last proof
        self._timer: Timer | None = None

    # Running

    def action_show_proof(self, argument: str = "") -> None:
        """Show what the last proof found, or run one if there is none; `run`, `stop` and `verify` do just that."""
        match argument.strip():
            case "":
                self._show_or_run()
            case "run":
                self._prove()
            case "stop":
                self._stop()
            case "verify":
                self._verify()
            case _:
                self.context.notify_user(USAGE, is_error=True)

    def _show_or_run(self) -> None:
        state = self.context.state
        proof = state.review.proof
        if state.proving is None and (proof.check is None or proof.is_check_stale) and state.changes:
            self._prove()
        else:
            self.context.show(build_evidence_page(proof, list_changes(state.changes), ("", "")))

    def _prove(self) -> None:
        """Run the check over each hunk; a refusal is reported."""
        self._is_due = self._is_held = False
        self.context.submit_soon(commands.ChangesProve())
        self.context.notify_user("The check runs over each hunk.", "Typing pauses it, x in the review stops it.")

    def _stop(self) -> None:
        self._is_due, self._is_held = False, True
        self.context.submit_soon(commands.ProofStop())

    @on(messages.ProveRequested)
    def _toggle(self) -> None:
        if self.context.state.proving is not None:
            self._stop()
        else:
            self._prove()

    # Giving way

    @on(Prompt.Changed)
    @on(messages.VerdictRequested)
    @on(messages.BulkResolved)
    @on(messages.CommandRequested)
    @on(messages.HunkTextRequested)
    def note_activity(self) -> None:
        """Stop the proof that runs, once, because the user is at work; it goes on after a pause."""
        if self.context.state.proving is not None and not self._is_stop_sent:
            self._is_stop_sent = self._is_due = True
            self.context.submit_soon(commands.ProofStop())
        if self._is_due:
            self._wait()

    def follow(self) -> None:
        """Note the end of a proof. One that gave way to something else goes on after a pause, too; not one that had
        ended before this session was opened here."""
        state = self.context.state
        self._is_stop_sent = self._is_stop_sent and state.proving is not None
        end, seen = (state.session_id, state.review.proof.finished), self._seen_end
        self._seen_end = end
        if end[1] is not None and end[1].stopped and end[0] == seen[0] and end[1] is not seen[1] and not self._is_held:
            self._is_due = True
            self._wait()

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = start_timer(self.context.screen, QUIET_SECONDS, self._go_on)

    def _go_on(self) -> None:
        """Continue the proof that gave way; while a turn runs, its end begins another one."""
        self._timer = None
        state = self.context.state
        if state.proving is not None:  # it has not ended yet
            self._wait()
            return
        finished = state.review.proof.finished
        was_stopped = finished is not None and finished.stopped
        if self._is_due and was_stopped and state.changes and not state.is_running:
            self.context.submit_soon(commands.ChangesProve())
        self._is_due = False

    # Accepting

    @on(messages.ProvenVerdictRequested)
    @in_worker("commands", exclusive=False)
    async def _accept_proven(self, _: messages.ProvenVerdictRequested) -> None:
        state = self.context.state
        summary = summarize_proof(state.review.proof, list_changes(state.changes))
        if summary.proven:
            if await self.context.ask(build_proven_dialog(summary)) is True:
                await self.context.submit(commands.ProvenAccept())
            return
        title = (
            "Nothing is proven as things are" if state.review.proof.check else "No check has looked into each hunk yet"
        )
        choice = await self.context.ask(ActionPickerDialog(title, _WAYS))
        if choice == "prove":
            self._prove()
        elif choice == "verify":
            self._verify()

    @in_worker("commands", exclusive=False)
    async def _verify(self) -> None:
        """Offer to run the checks again, whole, and accept the files over which they pass."""
        from tui.dialogs.consent import build_verification_dialog

        question = queries.VerificationQuery(tests_only=True)
        plan = await self.context.query(question, queries.VerificationAnswer, "Couldn't load the checks.")
        if plan is None:
            return
        if plan.refused:
            self.context.notify_user(plan.refused)
        elif await self.context.ask(build_verification_dialog(plan)) is True:
            await self.context.submit(commands.ChangesVerify(tests_only=True))

    # Showing

    @on(messages.ProofRequested)
    def _show_proof(self, event: messages.ProofRequested) -> None:
        state, check = self.context.state, event.change.check
        proof = state.review.proof
        verification = state.review.verifications.get(check.command) if check is not None else None
        if proof.check is not None:
            output = build_proof_output(check, state.blocks, verification) if check is not None else None
            place = (event.change.path, event.hunk)
            self.context.show(build_evidence_page(proof, list_changes(state.changes), place, output))
        elif check is None:
            text = f"No check has run on {format_path(event.change.path, 100)} in this state."
            self.context.notify_user(text, NO_CHECK_HINT)
        else:
            self.context.show(build_proof_page(check, state.blocks, verification))


def build_proven_dialog(summary: ProofSummary) -> ConfirmDialog:
    """Build the question before the hunks are accepted that evidence proves, with what is left out."""
    plain = summary.proven - summary.proven_checked
    parts = [f"{count('hunk', summary.proven_checked)} that tests check"] if summary.proven_checked else []
    if plain:
        noun = "" if parts else f" {'hunk' if plain == 1 else 'hunks'}"
        parts.append(f"{plain:,}{noun} that need{'s' if plain == 1 else ''} no test")
    left_out = f"Not: {', '.join(summary.left_out)}." if summary.left_out else "That is all that is pending."
    return ConfirmDialog(f"Accept {' and '.join(parts)}?", "accept", explanation=left_out, no="keep pending")
