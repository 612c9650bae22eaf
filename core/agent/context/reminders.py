"""Reminders: what the program tells the model beside the user's words, such as modes, verdicts and steering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.agent.context.prompt_tags import escape_tags, wrap_tag
from core.agent.turn.turn_context import TurnContext
from core.prompts import load_tool_text, render
from core.protocol.attachment_labels import find_attachments
from core.protocol.events import CommandRan, HunkEdited, JobEnded, MessageAppended, TerminalReported, VerdictsReported
from core.protocol.messages import UserMessage
from core.protocol.review import VerdictRecord

MAX_EXCERPT = 1_500
MAX_VERDICTS = 60
MAX_COMMAND_CHARS = 500


def wrap_reminder(text: str) -> str:
    return wrap_tag("system_reminder", text)


def append_reminder(session: TurnContext, text: str) -> None:
    """Append a reminder to the history as a message of its own."""
    session.emit(MessageAppended(message=UserMessage(content=wrap_reminder(text), origin="program")))


def render_mode_reminder(session: TurnContext) -> str:
    """Render the text for a mode that the model has not been told of yet; "" when it knows."""
    mode, told = session.state.mode, session.announced.get("mode", "")
    if mode == told:
        return ""
    session.announced["mode"] = mode
    text = "\n\n".join(
        filter(None, (render(f"modes/{mode}", contained=session.is_contained), _render_mode_tools(session, mode)))
    )
    return render("reminders/mode", mode=mode, previous=told, text=text)


def _render_mode_tools(session: TurnContext, mode: str) -> str:
    """Render the tools that come with a mode and are in no list; "" for a dialect that has commands alone."""
    from core.tools.registry import DEFERRED, describe_tool

    if mode not in DEFERRED or session.dialect == "command":
        return ""
    tools = [{"name": name, "text": describe_tool(name, load_tool_text(name))} for name in DEFERRED[mode]]
    return render("reminders/mode_tools", tools=tools, in_text=session.dialect == "tags")


def append_updates(session: TurnContext) -> None:
    """Append what is new before a step: a new mode, verdicts, commands, and what the user sent meanwhile."""
    if text := render_mode_reminder(session):
        append_reminder(session, text)
    report_verdicts(session)
    report_terminal(session)
    for identity, text in list(session.state.pending_steers.items()):
        steered = f"{wrap_reminder(render('reminders/steer'))}\n{wrap_tag('user_query', text)}"
        shown = find_attachments(text, session.state.attachments)
        session.emit(MessageAppended(message=UserMessage(content=steered, attachments=shown), steers=(identity,)))


def report_terminal(session: TurnContext) -> None:
    """Report to the model, once, jobs that ended and commands that the user ran."""
    news = list(session.state.unreported_commands.values())
    if not news:
        return
    ended = [{"id": each.id, "line": format_job_end(each)} for each in news if isinstance(each, JobEnded)]
    ran = [_describe_command(each) for each in news if isinstance(each, CommandRan)]
    append_reminder(session, render("reminders/terminal", ended=ended, ran=ran))
    session.emit(TerminalReported(ids=tuple(each.id for each in news)))


def format_job_end(job: JobEnded) -> str:
    """Format how a job ended and what it changed."""
    code = f"exit code {job.exit_code}" if job.exit_code is not None else job.ended.replace("_", " ")
    return escape_tags(
        f"`{job.command[:MAX_COMMAND_CHARS]}`: {code} after {job.duration_ms / 1000:.1f} s; {job.effects}"
    )


def _describe_command(run: CommandRan) -> dict[str, str]:
    code = f"exit code {run.exit_code}" if run.exit_code is not None else run.ended.replace("_", " ")
    return {
        "command": escape_tags(run.command),
        "directory": escape_tags(run.directory),
        "end": code,
        "output": escape_tags(run.output.strip()),
        "effects": escape_tags(run.effects),
    }


def report_verdicts(session: TurnContext) -> None:
    """Report to the model, once, the verdicts that it does not know, and those it knows that no longer stand."""
    verdicts, undone = session.state.unreported_verdicts, session.state.undone_verdicts
    edits = session.state.unreported_edits
    if verdicts or undone or edits:
        append_reminder(session, render_verdicts(verdicts, undone, edits))
        told = [*(verdict.id for verdict in (*undone, *verdicts)), *(edit.id for edit in edits)]
        session.emit(VerdictsReported(ids=tuple(told)))


def render_verdicts(
    verdicts: Sequence[VerdictRecord], undone: Sequence[VerdictRecord] = (), edits: Sequence[HunkEdited] = ()
) -> str:
    shown = [_describe_verdict(verdict) for verdict in verdicts[-MAX_VERDICTS:]]
    return render(
        "reminders/verdicts",
        verdicts=shown,
        undone=[_describe_verdict(verdict) for verdict in undone[-MAX_VERDICTS:]],
        edits=[_describe_edit(edit) for edit in edits[-MAX_VERDICTS:]],
        accepted=any(verdict.verdict == "accept" for verdict in verdicts),
        rejected=any(verdict.verdict == "reject" for verdict in verdicts),
    )


def _describe_edit(edit: HunkEdited) -> dict[str, Any]:
    return {"path": escape_tags(edit.path), "start": edit.start, "excerpt": escape_tags(edit.excerpt[:MAX_EXCERPT])}


def _describe_verdict(verdict: VerdictRecord) -> dict[str, Any]:
    spans = [(hunk.new_start, hunk.new_start + max(hunk.new_lines, 1) - 1) for hunk in verdict.hunks]
    lines = ", ".join(f"{start}" if start == end else f"{start}-{end}" for start, end in spans[:10])
    # Of what was accepted the model needs to know where, of what was rejected also what.
    excerpt = escape_tags(verdict.excerpt[:MAX_EXCERPT]) if verdict.verdict == "reject" else ""
    return {
        "verdict": verdict.verdict,
        "path": escape_tags(verdict.path),
        "lines": f"lines {lines}" if lines else "",
        "reason": verdict.reason,
        "excerpt": excerpt,
    }
