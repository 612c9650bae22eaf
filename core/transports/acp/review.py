"""The review in the editor: the user is asked about a turn's changes by file or by hunk, and accepted ones are written.

The files on disk stay as they are until then. A request without an answer decides nothing: the change stays pending.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from msgspec import Struct

from core.acp.client_methods import AgentMessageChunk, PermissionOption, ToolCallChanged, ToolCallStarted
from core.acp.connection import AcpError
from core.acp.content import TextContent, ToolCallContent, ToolCallLocation, ToolCallUpdate
from core.protocol import commands as cmd
from core.protocol.named_verdicts import build_named_verdict
from core.protocol.renames import format_change_path, list_changes
from core.protocol.review import Change, Verdict
from core.state.proof_text import list_proof_rows
from core.transports.acp.session import FollowedSession
from core.transports.acp.tool_calls import build_text

ACCEPT, REJECT, ACCEPT_REST = "accept", "reject", "accept_rest"
_OUTCOMES: Final = {ACCEPT: "Accepted.", REJECT: "Rejected.", "": "Undecided: still pending your review."}

_ELSEWHERE: Final = "No longer pending: it was decided elsewhere meanwhile; nothing was done."
_CHANGED: Final = "It has changed since it was shown; nothing was done. /review shows the current version."
_NOT_DONE: Final = "That failed: nothing was written; still pending your review."


async def review_turn(session: FollowedSession, turn: str) -> None:
    """Review the changes of a turn by the session's policy. Ends early when the prompt is cancelled."""
    await session.settle()
    changes = [change for change in list_changes(session.state.changes) if change.origin and change.origin.turn == turn]
    if session.review == "auto-accept" and changes:
        await session.submit(cmd.HunkResolve(session=session.id, path="", verdict="accept"))
        await session.settle()
    elif session.review in {"end", "each"}:
        await review_changes(session, changes, by_hunk=session.review == "each")
    if changes:
        _report_pending(session)


async def review_all(session: FollowedSession) -> None:
    """Review all pending changes at the user's command."""
    await session.settle()
    changes = list_changes(session.state.changes)
    if not changes:
        session.show_text("Nothing pending review.")
    await review_changes(session, changes, by_hunk=session.review == "each")
    if changes:
        _report_pending(session)


async def resolve_named(session: FollowedSession, path: str, verdict: Verdict) -> None:
    """Give one verdict on all pending changes, or on one path, and report the result."""
    await session.settle()
    before, bulks = dict(session.state.changes), session.state.review.bulks
    if not before and not bulks:
        session.show_text("Nothing pending review.")
        return
    try:
        await session.submit(build_named_verdict(path, verdict, before, bulks, session=session.id))
        await session.settle()
    except AcpError as problem:
        session.show_text(f"That failed: {problem.message}")
    else:
        rows = [change for change in list_changes(before) if change.path not in session.state.changes]
        names = [format_change_path(row) for row in rows]
        names += sorted({bulk.root for bulk in bulks} - {bulk.root for bulk in session.state.review.bulks})
        session.show_text(f"{verdict.capitalize()}ed: {', '.join(names)}." if names else _NOT_DONE)
    _report_pending(session)


async def review_changes(session: FollowedSession, changes: Sequence[Change], *, by_hunk: bool) -> None:
    """Ask about changes, one after the other."""
    for number, change in enumerate(changes):
        if session.is_cancelled() or change.conflict:
            continue
        if by_hunk and len(change.hunks) > 1 and not change.binary:
            await _review_hunks(session, change)
        elif await _review_one(session, change, has_more=number + 1 < len(changes)) == ACCEPT_REST:
            await _accept_rest(session, tuple(other_change.path for other_change in changes[number + 1 :]))
            return


async def _accept_rest(session: FollowedSession, paths: tuple[str, ...]) -> None:
    if waiting := tuple(path for path in paths if path in session.state.changes):
        try:
            await session.submit(cmd.HunkResolve(session=session.id, path="", paths=waiting, verdict="accept"))
        except AcpError as problem:
            session.show_text(f"The rest could not be accepted: {problem.message}")
        await session.settle()


async def _review_hunks(session: FollowedSession, change: Change) -> None:
    total = len(change.hunks)
    for number, hunk in enumerate(change.hunks, 1):
        current = session.state.changes.get(change.path)
        if session.is_cancelled() or current is None or hunk.id not in {other_hunk.id for other_hunk in current.hunks}:
            continue  # another verdict has covered it
        await _review_one(session, current, hunk=hunk.id, part=f" ({number}/{total})")


async def _review_one(
    session: FollowedSession, change: Change, *, hunk: str = "", part: str = "", has_more: bool = False
) -> str:
    """Ask about a change or one of its hunks, and carry out the verdict. Returns the choice, "" = none."""
    request = await _build_request(session, change, hunk, part)
    session.notify(
        ToolCallStarted(
            tool_call_id=request.tool_call_id,
            title=request.title or change.path,
            kind="edit",
            content=request.content or (),
            locations=request.locations or (),
            raw_input=request.raw_input,
        )
    )
    options = [
        PermissionOption(option_id=ACCEPT, name="Accept", kind="allow_once"),
        PermissionOption(option_id=REJECT, name="Reject", kind="reject_once"),
    ]
    if has_more and not change.protected:
        options.append(PermissionOption(option_id=ACCEPT_REST, name="Accept this and the rest", kind="allow_always"))
    shown_change = _ShownChange(change, hunk, request)
    choice = await session.choose(request, options, on_late=partial(_carry_out_late, session, shown_change))
    await _carry_out(session, shown_change, choice)
    return choice


async def _carry_out_late(session: FollowedSession, shown_change: _ShownChange, choice: str) -> None:
    """Carry out a verdict that came after its prompt, and report the result."""
    report = await _carry_out(session, shown_change, choice)
    session.show_text(f"{format_change_path(shown_change.change)}: your answer came late. {report}")


async def _carry_out(session: FollowedSession, shown_change: _ShownChange, choice: str) -> str:
    """Carry out the chosen verdict if what was shown is still pending; show the result at its call, and return it."""
    report = await _give_verdict(session, shown_change, choice) if choice else ""
    is_accepted = choice in {ACCEPT, ACCEPT_REST} and not report
    report = report or _OUTCOMES[ACCEPT if choice == ACCEPT_REST else choice]
    session.notify(
        ToolCallChanged(
            tool_call_id=shown_change.call.tool_call_id,
            status="completed" if is_accepted else "failed",
            content=(*(shown_change.call.content or ()), build_text(report)),
        )
    )
    return report


async def _give_verdict(session: FollowedSession, shown_change: _ShownChange, choice: str) -> str | None:
    """Give a verdict. Returns why it was not carried out; None: it was."""
    await session.settle()
    if difference := shown_change.find_difference(session.state.changes.get(shown_change.change.path)):
        return difference
    verdict: Verdict = "reject" if choice == REJECT else "accept"
    hunks, path = (shown_change.hunk,) if shown_change.hunk else (), shown_change.change.path
    try:
        await session.submit(
            cmd.HunkResolve(session=session.id, path=path, hunks=hunks, verdict=verdict, confirmed=True)
        )
    except AcpError as problem:
        return f"That failed: {problem.message}"
    await session.settle()
    still = session.state.changes.get(path)
    is_left = still is not None and (not shown_change.hunk or shown_change.hunk in {hunk.id for hunk in still.hunks})
    return _NOT_DONE if is_left else None


class _ShownChange(Struct, frozen=True):
    """A change, or its hunk `hunk`, as the request `call` showed it."""

    change: Change
    hunk: str
    call: ToolCallUpdate

    def find_difference(self, current: Change | None) -> str | None:
        """Return why a verdict on the shown change can't apply to the current one; None: it can."""
        waiting = {hunk.id for hunk in current.hunks} if current is not None else set[str]()
        if current is None or (self.hunk and self.hunk not in waiting):
            return _ELSEWHERE
        is_same = bool(self.hunk) or (current.pending, current.base) == (self.change.pending, self.change.base)
        return None if is_same else _CHANGED


async def _build_request(session: FollowedSession, change: Change, hunk: str, part: str) -> ToolCallUpdate:
    diff = await session.load_diff(change.path, hunk=hunk)
    check = change.check
    notes = (
        f"Careful: {change.risk}" if change.risk else "Protected." if change.protected else "",
        f"{change.operation}, no lines to show" if diff is None else "",
        f"`{check.command}` ended with {check.exit_code} on it." if check is not None else "No check has run on it.",
        change.broken,
        *_describe_evidence(session, change, hunk),
    )
    content: list[ToolCallContent] = [diff] if diff is not None else []
    content.append(build_text("\n".join(note for note in notes if note)))
    start = next((candidate.new_start for candidate in change.hunks if not hunk or candidate.id == hunk), 0)
    counts = f"+{change.added} -{change.removed}"
    return ToolCallUpdate(
        tool_call_id=f"review-{session.state.seq}-{hunk or change.path}",
        kind="delete" if change.operation == "delete" else "move" if change.renamed_from else "edit",
        status="pending",
        title=f"Accept {format_change_path(change)}{part}? ({counts})",
        content=tuple(content),
        locations=(ToolCallLocation(path=str(session.root / change.path), line=start or None),),
        raw_input={"path": change.path, "operation": change.operation, "hunk": hunk},
    )


def _describe_evidence(session: FollowedSession, change: Change, hunk: str) -> list[str]:
    """Describe what the check says of a hunk, or of all hunks of a change."""
    rows = list_proof_rows(session.state.review.proof, [change])
    return [row.format() for row in rows if not hunk or row.hunk.id == hunk]


def _report_pending(session: FollowedSession) -> None:
    """Report which changes are still pending, and where they can be decided on."""
    waiting = list_changes(session.state.changes)
    bulk_roots = [bulk.root for bulk in session.state.review.bulks if bulk.needs_verdict]
    if waiting or bulk_roots:
        names = ", ".join([*map(format_change_path, waiting[:5]), *bulk_roots[:5]])
        suffix = f" and {len(waiting) - 5} more" if len(waiting) > 5 else ""
        clash = " Some conflict with your files." if any(change.conflict for change in waiting) else ""
        text = f"\n\nPending review: {names}{suffix}.{clash} /review asks about it, agent-tui review shows it."
        session.notify(AgentMessageChunk(content=TextContent(text=text)))
