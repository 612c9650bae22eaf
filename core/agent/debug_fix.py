"""A fix that was shown by a run: the user says whether the fault is gone, and one that did not help is taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.agent.session import SessionContext
from core.ids import new_id
from core.protocol.debug import ASKED_IF_FIXED, ProbeRun
from core.protocol.documents import Option, Question
from core.protocol.events import CheckRecorded, FixJudged, Notice, QuestionAsked
from core.protocol.events.debug import FixOutcome
from core.protocol.review import Check, Origin

PROCEED: Final = Option(id="proceed", label="Proceed")
VERDICTS: Final = (Option(id="fixed", label="Mark as fixed"), Option(id="broken", label="Still broken"))
OUTCOMES: Final[dict[str, FixOutcome]] = {"fixed": "fixed", "broken": "broken"}


class Judged(Struct, frozen=True, kw_only=True):
    """What came of it. `told` is what the model hears of it."""

    outcome: FixOutcome
    told: str


def take_back(session: SessionContext, origin: Origin) -> tuple[str, ...]:
    """Undo what was changed since a hypothesis was confirmed and still waits for the user. The files."""
    shadow, gone = session.shadow, []
    for path, before in session.state.debug.fixes.items():
        change = session.state.changes.get(path)
        if change is None:
            continue
        wanted = before or change.base
        data = None if wanted.kind == "absent" else shadow.blobs.get(wanted.blob)
        shadow.edit(path, data, origin, wanted.mode if data else None)
        session.seen.pop(path, None)
        gone.append(path)
    return tuple(gone)


def record(session: SessionContext, outcome: FixOutcome, origin: Origin, *, note: str = "") -> Judged:
    """Keep what the user said of the fix in the latest run that shows it; take it back if it did not help."""
    run = session.state.debug.shown_by
    if outcome == "fixed":
        shown = session.state.debug.runs.get(run)
        _checked(session, run, (shown.command if shown else "") or "shown by the user", 0)
    gone = take_back(session, replace(origin, tool="still_broken")) if outcome == "broken" else ()
    session.emit(FixJudged(run=run, outcome=outcome, taken_back=gone))
    if gone:
        session.emit(Notice(level="info", message=f"Still broken. {_taken_back(gone)}"))
    told = {
        "fixed": "The user says that the fault is gone. Take the probes away and end with a short account.",
        "broken": f"The user says that the fault is still there. {_taken_back(gone)} Set new hypotheses from what the "
        "runs have shown; edits wait until one of them is confirmed.",
        "unsure": "The user can't say whether the fault is gone; go by what the runs have shown.",
    }[outcome]
    return Judged(outcome=outcome, told=f"{told} The user adds: {note}" if note else told)


def record_proof(session: SessionContext, run: ProbeRun) -> None:
    """A run over a fix whose command failed before it: how it ends now is how the fix is checked."""
    before = (each for each in session.state.debug.runs.values() if not each.after_fix and each.command == run.command)
    showed_it = any(each.exit_code not in {0, None} for each in before)
    if run.after_fix and run.command and run.exit_code is not None and showed_it:
        _checked(session, run.id, run.command, run.exit_code)


def _checked(session: SessionContext, run: str, command: str, exit_code: int) -> None:
    if files := tuple(session.state.debug.fixes):
        session.emit(CheckRecorded(check=Check(call=run, command=command, exit_code=exit_code, paths=files)))


def _taken_back(gone: Sequence[str]) -> str:
    return f"The fix was taken back in {', '.join(gone)}." if gone else "Nothing of the fix was pending any more."


async def judge_fix(session: SessionContext, origin: Origin) -> Judged | None:
    """Ask the user about a fix that a run has shown and that they did not judge yet; None: there is none. That nobody
    could be asked is said in the output."""
    debug = session.state.debug
    if not debug.awaits_judgement:
        return None
    shown = debug.runs[debug.shown_by]
    before = next((run for run in reversed(debug.runs.values()) if not run.after_fix), None)
    if not session.interactive:
        session.emit(FixJudged(run=shown.id, outcome="unsure", by="program"))
        message = f"Nobody could be asked whether the fault is gone. {_ended(shown, None)}."
        session.emit(Notice(level="info", message=message, hint="See for yourself before you accept the change."))
        told = "Nobody could be asked whether the fault is gone: go by what the runs have shown, and say so."
        return Judged(outcome="unsure", told=told)
    text = "\n".join(["Is the fault gone?", "", _ended(shown, None), *([_ended(before, shown)] if before else [])])
    question = Question(id=ASKED_IF_FIXED, text=text, options=(*VERDICTS, PROCEED))
    answered = await session.ask(QuestionAsked(id=new_id("ask"), call=origin.call, questions=(question,)))
    answer = answered.answers[0] if answered.answers else None
    chosen = answer.options[0] if answer is not None and answer.options else "proceed"
    return record(session, OUTCOMES.get(chosen, "unsure"), origin, note=answer.text.strip() if answer else "")


def _ended(run: ProbeRun, other: ProbeRun | None) -> str:
    """How a run ended; its command, if it is not that of the other one."""
    how = f"exit code {run.exit_code}" if run.exit_code is not None else run.ended.replace("_", " ")
    when = "after the fix" if run.after_fix else "before it"
    if not run.command:
        return f"{run.id}, {when}: shown by you"
    of = f" of `{run.command}`" if other is None or other.command != run.command else ""
    return f"{run.id}, {when}: {how}{of}"
