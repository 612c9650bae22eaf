"""Code reviews: `/review`, and what becomes of its findings, which are fixed in a turn of their own or dismissed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Final

from core.agent.mentions.sources import PromptSurroundings
from core.agent.turn.turn_context import TurnContext
from core.engine.session.session import Session
from core.engine.session.tasks import Effect
from core.engine.session.turns import ask_model, reserve_turn, start_turn
from core.errors import CommandRejected
from core.modes import Mode
from core.prompts import render
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.review import Finding
from core.state.findings import CodeReview
from core.text.counting import count

_AGAIN: Final = "/review reviews the current branch."
_CALL: Final = re.compile(r"/review(?:\s+(\S+))?")


def parse_review(prompt: str) -> str | None:
    """Return what a prompt wants reviewed, "" = the current branch; None: it is no `/review`."""
    found = _CALL.fullmatch(prompt.strip())
    return (found[1] or "") if found else None


async def prepare_review(session: Session, prompt: str, wanted: str) -> Effect:
    """Read what is to be reviewed; the turn follows. Raises `CommandRejected`."""
    from core.engine.findings.reviewed_code import read_reviewed_code
    from core.engine.findings.reviewing import review_code

    code = await read_reviewed_code(session, wanted)
    await reserve_turn(session)

    def start() -> None:
        before = session.state.mode
        if before != Mode.ASK:
            session.emit_outside_turn(ev.ModeChanged(mode=Mode.ASK.value, back_to=before))
        session.call_permissions.record_foreign([code.source] if code.source else [])
        start_turn(session, partial(review_code, session, code, prompt), prompt)

    return start


async def prepare_fix(session: Session, command: cmd.FindingsFix) -> Effect:
    """Have findings fixed in a turn in Agent mode, so that the hunks come from the finding as their prompt."""
    review = _get_review(session)
    chosen = _find_all(review, command.ids) if command.ids else review.list_open()
    if not chosen:
        raise CommandRejected("no finding is open.", hint=_AGAIN, code="nothing_to_fix")
    prompt = _write_prompt(chosen)
    longest = max((each.quote + (each.suggestion or "") for each in chosen), key=lambda text: text.count("`"))
    fence = "`" * max(3, longest.count("`") + 1)
    instruction = render("fix_findings", findings=chosen, subject=review.subject, fence=fence)
    paths = tuple(dict.fromkeys(each.path for each in chosen if each.path))
    await reserve_turn(session)

    async def fix(context: TurnContext) -> None:
        ids = tuple(each.id for each in chosen)
        context.emit(ev.FindingsSettled(ids=ids, standing="fixing", turn=context.turn_id))
        await ask_model(context, prompt, PromptSurroundings(open_files=paths), instruction=instruction)

    def start() -> None:
        if session.state.mode != Mode.AGENT:
            session.emit_outside_turn(ev.ModeChanged(mode=Mode.AGENT.value))
        start_turn(session, fix, prompt)

    return start


def _write_prompt(chosen: Sequence[Finding]) -> str:
    if len(chosen) == 1:
        return f"Fix: {chosen[0].title}{f' ({chosen[0].place})' if chosen[0].place else ''}"
    rows = (f"- {each.title}{f' ({each.place})' if each.place else ''}" for each in chosen)
    return "\n".join((f"Fix {count('finding', len(chosen))} of the review:", *rows))


def prepare_dismissal(session: Session, command: cmd.FindingsDismiss) -> Effect:
    """Dismiss findings, or open those again that are dismissed already."""
    review = _get_review(session)
    chosen = _find_all(review, command.ids)
    if not chosen:
        raise CommandRejected("no finding is named.", code="finding_unknown")
    dismissed = {each.id for each in chosen if review.get_standing(each.id).standing == "dismissed"}
    fresh = tuple(each.id for each in chosen if each.id not in dismissed)

    def settle() -> None:
        if fresh:
            session.emit_outside_turn(ev.FindingsSettled(ids=fresh, standing="dismissed"))
        else:
            session.emit_outside_turn(ev.FindingsSettled(ids=tuple(dismissed), standing="open"))

    return settle


def _get_review(session: Session) -> CodeReview:
    review = session.state.review.code_review
    if review is None:
        raise CommandRejected("nothing was reviewed in this session.", hint=_AGAIN, code="no_code_review")
    return review


def _find_all(review: CodeReview, ids: Sequence[str]) -> list[Finding]:
    known = {each.id: each for each in review.findings}
    if unknown := [each for each in ids if each not in known]:
        raise CommandRejected(
            f"there is no finding {unknown[0]!r} in the last review.",
            hint="Look again: /findings",
            code="finding_unknown",
        )
    return [known[each] for each in dict.fromkeys(ids)]
