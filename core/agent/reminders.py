"""What the program tells the model beside the user's words: the mode, verdicts on hunks, a message given meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.agent.session import SessionContext
from core.agent.tags import as_data, tagged
from core.prompts import render, tool_text
from core.protocol.attachments import attachments_in
from core.protocol.events import CommandRan, HunkEdited, JobEnded, MessageAppended, TerminalReported, VerdictsReported
from core.protocol.messages import UserMessage
from core.protocol.review import VerdictRecord

MAX_EXCERPT = 1_500
MAX_VERDICTS = 60
MAX_COMMAND = 500


def reminder(text: str) -> str:
    return tagged("system_reminder", text)


def remind(session: SessionContext, text: str) -> None:
    """Append a reminder to the history as a message of its own."""
    session.emit(MessageAppended(message=UserMessage(content=reminder(text), origin="program")))


def mode_reminder(session: SessionContext) -> str:
    """The text for a mode that the model has not been told of yet, "" when it knows."""
    mode, told = session.state.mode, session.told.get("mode", "")
    if mode == told:
        return ""
    session.told["mode"] = mode
    text = "\n\n".join(filter(None, (render(f"modes/{mode}", contained=session.contained), _tools_of(session, mode))))
    return render("reminders/mode", mode=mode, previous=told, text=text)


def _tools_of(session: SessionContext, mode: str) -> str:
    """The tools that come with a mode and are in no list; what has commands alone is told of none."""
    from core.tools.registry import DEFERRED, described

    if mode not in DEFERRED or session.dialect == "command":
        return ""
    tools = [{"name": name, "text": described(name, tool_text(name))} for name in DEFERRED[mode]]
    return render("reminders/mode_tools", tools=tools, in_text=session.dialect == "tags")


def take_in(session: SessionContext) -> None:
    """Before a step: tell the model of a new mode, of verdicts, and hand on what the user sent meanwhile."""
    if text := mode_reminder(session):
        remind(session, text)
    report_verdicts(session)
    report_terminal(session)
    for identity, text in list(session.state.steers.items()):
        steered = f"{reminder(render('reminders/steer'))}\n{tagged('user_query', text)}"
        shown = attachments_in(text, session.state.attached)
        session.emit(MessageAppended(message=UserMessage(content=steered, attachments=shown), steers=(identity,)))


def report_terminal(session: SessionContext) -> None:
    """Tell the model, once, of jobs that ended and of commands that the user ran."""
    news = list(session.state.terminal_news.values())
    if not news:
        return
    ended = [{"id": each.id, "line": ended_line(each)} for each in news if isinstance(each, JobEnded)]
    ran = [_ran(each) for each in news if isinstance(each, CommandRan)]
    remind(session, render("reminders/terminal", ended=ended, ran=ran))
    session.emit(TerminalReported(ids=tuple(each.id for each in news)))


def ended_line(job: JobEnded) -> str:
    """How a job ended and what it changed."""
    code = f"exit code {job.exit_code}" if job.exit_code is not None else job.ended.replace("_", " ")
    return as_data(f"`{job.command[:MAX_COMMAND]}`: {code} after {job.duration_ms / 1000:.1f} s; {job.effects}")


def _ran(run: CommandRan) -> dict[str, str]:
    code = f"exit code {run.exit_code}" if run.exit_code is not None else run.ended.replace("_", " ")
    return {
        "command": as_data(run.command),
        "directory": as_data(run.directory),
        "end": code,
        "output": as_data(run.output.strip()),
        "effects": as_data(run.effects),
    }


def report_verdicts(session: SessionContext) -> None:
    """Tell the model, once, of the verdicts that it does not know, and of those it knows that no longer stand."""
    verdicts, undone = session.state.unreported_verdicts, session.state.verdicts_taken_back
    edits = session.state.unreported_edits
    if verdicts or undone or edits:
        remind(session, verdicts_text(verdicts, undone, edits))
        told = [*(verdict.id for verdict in (*undone, *verdicts)), *(edit.id for edit in edits)]
        session.emit(VerdictsReported(ids=tuple(told)))


def verdicts_text(
    verdicts: Sequence[VerdictRecord], undone: Sequence[VerdictRecord] = (), edits: Sequence[HunkEdited] = ()
) -> str:
    shown = [_shown(verdict) for verdict in verdicts[-MAX_VERDICTS:]]
    return render(
        "reminders/verdicts",
        verdicts=shown,
        undone=[_shown(verdict) for verdict in undone[-MAX_VERDICTS:]],
        edits=[_edit_shown(edit) for edit in edits[-MAX_VERDICTS:]],
        accepted=any(verdict.verdict == "accept" for verdict in verdicts),
        rejected=any(verdict.verdict == "reject" for verdict in verdicts),
    )


def _edit_shown(edit: HunkEdited) -> dict[str, Any]:
    return {"path": as_data(edit.path), "start": edit.start, "excerpt": as_data(edit.excerpt[:MAX_EXCERPT])}


def _shown(verdict: VerdictRecord) -> dict[str, Any]:
    spans = [(hunk.new_start, hunk.new_start + max(hunk.new_lines, 1) - 1) for hunk in verdict.hunks]
    lines = ", ".join(f"{start}" if start == end else f"{start}-{end}" for start, end in spans[:10])
    # Of what was accepted the model needs to know where, of what was rejected also what.
    excerpt = as_data(verdict.excerpt[:MAX_EXCERPT]) if verdict.verdict == "reject" else ""
    return {
        "verdict": verdict.verdict,
        "path": as_data(verdict.path),
        "lines": f"lines {lines}" if lines else "",
        "reason": verdict.reason,
        "excerpt": excerpt,
    }
