"""The turn that reviews, with the rights of Ask mode whatever the session's mode is.

The mode is the session's while it reviews, so that the gate, the model's reminders and every client see the same one.

Models count badly: what was quoted is looked up. If it stands once elsewhere in the file, the finding moves there; what
is not there is told, so that nobody looks for it at a line that says something else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from core.agent.base.prompt_tags import escape_tags
from core.agent.context.turn_context import TurnContext
from core.agent.mentions.sources import PromptSurroundings
from core.engine.findings.reviewed_code import ReviewedCode
from core.engine.prompt_sources import build_session_reader
from core.engine.session.session import Session
from core.engine.session.turns import ask_model
from core.errors import PathRefused
from core.ids import new_id
from core.prompts import render
from core.protocol import events as ev
from core.protocol.review import Finding
from core.state.findings import read_findings
from core.text.counting import count
from core.tools.base import Reader

MAX_FILE: Final = 4_000_000  # bytes of a file that a finding is looked up in
_ELISION: Final = re.compile(r"\W*(?:\.\.\.|…)\W*|\W*(?:\.\.\.|…)[^()\[\]=]*")  # of lines that the reviewer left out


async def review_code(session: Session, code: ReviewedCode, prompt: str, context: TurnContext) -> None:
    """Let the model review, and report its findings before the turn ends."""
    emit = context.emit

    def emit_with_findings(event: ev.AnyEvent) -> None:
        if isinstance(event, ev.TurnFinished):
            _report(session, code, context.turn_id, event.reason)
            if back_to := session.state.mode_after_turn:
                emit(ev.ModeChanged(mode=back_to))
        emit(event)

    context.emit = emit_with_findings
    if code.cut:
        context.emit(ev.Notice(level="info", message=f"The diff is long: {code.cut:,} characters are left out."))
    await ask_model(context, prompt, PromptSurroundings(), instruction=_render_instruction(code))


def _render_instruction(code: ReviewedCode) -> str:
    diff = code.diff
    return render(
        "code_review",
        subject=diff.subject,
        log=escape_tags(diff.log),
        diff=escape_tags(code.shown),
        cut=f"{code.cut:,}" if code.cut else "",
        left_out=diff.left_out,
        is_on_disk=not diff.revision,
    )


def _report(session: Session, code: ReviewedCode, turn: str, reason: ev.TurnEnd) -> None:
    """Emit the findings of the turn, each looked up in its file; of one that was cut off, those that it came to."""
    document_lists = [
        turn_state.list_finished_documents() for turn_state in session.state.turns[-1:] if turn_state.id == turn
    ]
    findings = read_findings(document_lists[0]) if document_lists else []
    if not findings and reason != "done":
        return
    checked_findings = _check_all(build_session_reader(session), code, findings)
    diff = code.diff
    session.emit(
        ev.FindingsReported(turn=turn, subject=diff.subject, findings=checked_findings, revision=diff.revision)
    )


def _check_all(reader: Reader, code: ReviewedCode, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    checked_findings = list[Finding]()
    for finding in findings:
        lines = code.read_lines(finding.path)
        checked_finding = check_anchor(finding, lines, is_whole=False)
        if checked_finding.doubt and not code.diff.revision:  # it may be about a line that the change does not touch
            checked_finding = check_anchor(finding, _read_file(reader, finding.path), is_whole=True)
        checked_findings.append(replace(checked_finding, id=new_id("finding")))
    return tuple(checked_findings)


def _read_file(reader: Reader, path: str) -> dict[int, str]:
    try:
        text = reader.read_bytes(path, MAX_FILE).decode("utf-8", "replace")
    except PathRefused:
        return {}
    return dict(enumerate(text.removesuffix("\n").split("\n"), 1))


def check_anchor(finding: Finding, lines: Mapping[int, str], *, is_whole: bool) -> Finding:
    """Return a finding at the place where its lines stand, with what is off about it. `lines`: those of its file by
    their number, none for no such file; `is_whole`: all of the file, not what a diff shows of it."""
    if not finding.path:
        return finding
    quoted_lines = [quoted_line.strip() for quoted_line in finding.quote.split("\n")]
    quoted_lines = [quoted_line for quoted_line in quoted_lines if quoted_line and not _ELISION.fullmatch(quoted_line)]
    length = finding.end - finding.start
    starts = [number for number, line in lines.items() if quoted_lines and line.strip() == quoted_lines[0]]
    anchors = [start for start in (finding.start, *starts) if _stands_at(quoted_lines, lines, start, length)]
    if finding.start in anchors:
        return finding
    if len(anchors) == 1:
        return replace(finding, start=anchors[0], end=anchors[0] + length)
    return replace(finding, doubt=_describe_doubt(finding, lines, is_whole=is_whole))


def _stands_at(quoted_lines: Sequence[str], lines: Mapping[int, str], start: int, length: int) -> bool:
    """True if these lines are there, and hold what is quoted in its order."""
    if start not in lines or start + length not in lines:
        return False
    remaining_lines = iter([lines.get(number, "").strip() for number in range(start, start + length + 1)])
    return all(any(line == quoted_line for line in remaining_lines) for quoted_line in quoted_lines)


def _describe_doubt(finding: Finding, lines: Mapping[int, str], *, is_whole: bool) -> str:
    if not lines:
        return "there is no such file" if is_whole else "the file is not in the diff"
    if finding.start in lines and finding.end in lines:
        return "other text stands at these lines"
    return f"the file has {count('line', max(lines))}" if is_whole else "these lines are not in the diff"
