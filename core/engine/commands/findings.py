"""Commands of code reviews: `/review`, and fixing or dismissing its findings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from core.agent.context.turn_context import TurnContext
from core.agent.mentions.sources import PromptSurroundings
from core.engine.session.session import Session
from core.engine.session.tasks import Effect
from core.engine.turns.lifecycle import ask_model, reserve_turn, start_turn
from core.errors import CommandRejected
from core.modes import Mode
from core.patterns import compile_lazily
from core.prompts import render
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.review import Finding
from core.state.findings import CodeReview
from core.text.counting import count
from core.text.markup import choose_fence

_AGAIN: Final = "/review reviews the current branch."
_CALL: Final = compile_lazily(r"/review(?:\s+(\S+))?")


def parse_review(prompt: str) -> str | None:
    """Return the target of a `/review` prompt, "" = the current branch; None: it is another prompt."""
    match = _CALL.fullmatch(prompt.strip())
    return (match[1] or "") if match else None


async def prepare_review(session: Session, prompt: str, target: str) -> Effect:
    """Read the code to review, and return the start of the turn. Raises `CommandRejected`."""
    from core.engine.commands.code_review import read_reviewed_code, review_code

    code = await read_reviewed_code(session, target)
    await reserve_turn(session)

    def start() -> None:
        before = session.state.mode
        if before != Mode.ASK:
            session.emit_outside_turn(ev.ModeChanged(mode=Mode.ASK.value, back_to=before))
        session.call_permissions.record_foreign([code.source] if code.source else [])
        start_turn(session, partial(review_code, session, code, prompt), prompt)

    return start


async def prepare_fix(session: Session, command: cmd.FindingsFix) -> Effect:
    """Have findings fixed in a turn in Agent mode, with the findings as the prompt of its hunks."""
    review = _get_review(session)
    findings = _find_all(review, command.ids) if command.ids else review.list_open()
    if not findings:
        raise CommandRejected("there are no open findings.", hint=_AGAIN, code="nothing_to_fix")
    prompt = _write_prompt(findings)
    fence = choose_fence("\n".join(finding.quote + (finding.suggestion or "") for finding in findings))
    instruction = render("fix_findings", findings=findings, subject=review.subject, fence=fence)
    paths = tuple(dict.fromkeys(finding.path for finding in findings if finding.path))
    await reserve_turn(session)

    async def fix(context: TurnContext) -> None:
        ids = tuple(finding.id for finding in findings)
        context.emit(ev.FindingsSettled(ids=ids, standing="fixing", turn=context.turn_id))
        await ask_model(context, prompt, PromptSurroundings(open_files=paths), instruction=instruction)

    def start() -> None:
        if session.state.mode != Mode.AGENT:
            session.emit_outside_turn(ev.ModeChanged(mode=Mode.AGENT.value))
        start_turn(session, fix, prompt)

    return start


def _write_prompt(findings: Sequence[Finding]) -> str:
    if len(findings) == 1:
        return f"Fix: {findings[0].title}{f' ({findings[0].place})' if findings[0].place else ''}"
    rows = (f"- {finding.title}{f' ({finding.place})' if finding.place else ''}" for finding in findings)
    return "\n".join((f"Fix {count('finding', len(findings))} of the review:", *rows))


def prepare_dismissal(session: Session, command: cmd.FindingsDismiss) -> Effect:
    """Dismiss findings, or reopen them if all are dismissed already."""
    review = _get_review(session)
    findings = _find_all(review, command.ids)
    if not findings:
        raise CommandRejected("no finding is selected.", code="finding_unknown")
    dismissed_ids = {finding.id for finding in findings if review.get_standing(finding.id).standing == "dismissed"}
    fresh = tuple(finding.id for finding in findings if finding.id not in dismissed_ids)

    def settle() -> None:
        if fresh:
            session.emit_outside_turn(ev.FindingsSettled(ids=fresh, standing="dismissed"))
        else:
            session.emit_outside_turn(ev.FindingsSettled(ids=tuple(dismissed_ids), standing="open"))

    return settle


def _get_review(session: Session) -> CodeReview:
    review = session.state.review.code_review
    if review is None:
        raise CommandRejected("nothing has been reviewed in this session.", hint=_AGAIN, code="no_code_review")
    return review


def _find_all(review: CodeReview, ids: Sequence[str]) -> list[Finding]:
    findings_by_id = {finding.id: finding for finding in review.findings}
    if unknown := [finding_id for finding_id in ids if finding_id not in findings_by_id]:
        raise CommandRejected(
            f"there is no finding {unknown[0]!r} in the last review.",
            hint="See them again: /findings",
            code="finding_unknown",
        )
    return [findings_by_id[finding_id] for finding_id in dict.fromkeys(ids)]
