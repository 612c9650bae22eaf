"""Actions of the agent's reach: prompts that are tried side by side, what is taken of them, permissions taken back;
commits of what was accepted; reviews of code, and what becomes of their findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol.queries import (
    CandidatesAnswer,
    CandidatesQuery,
    CommitAnswer,
    CommitQuery,
    PermissionsAnswer,
    PermissionsQuery,
)
from tests.fuzz import actions as act
from tests.fuzz.oracle import Allowance, Broken

if TYPE_CHECKING:
    from tests.fuzz.driver import Driver


Reaching = act.Best | act.Take | act.Forget | act.Commit | act.Review | act.Finding


async def perform_reach(driver: Driver, action: Reaching) -> None:
    """Perform an action; none of them may touch a file of the user's. While a turn runs, none of them is done."""
    match action:
        case _ if driver.runtime.turn_slot.is_running:
            return
        case act.Best():
            await _try_side_by_side(driver, action)
        case act.Take():
            await _take(driver, action)
        case act.Forget():
            await _forget(driver, action)
        case act.Commit():
            await _commit(driver, action)
        case act.Review():
            await _review(driver, action)
        case act.Finding():
            await _settle_finding(driver, action)


async def _try_side_by_side(driver: Driver, action: act.Best) -> None:
    driver.model.begin(act.Turn(steps=action.steps))
    begun, ended = len(_list_begun(driver)), driver.count(ev.TurnFinished)
    reply = await driver.do(cmd.BestRun(session=driver.session, text="Do it", models=("",) * action.candidates))
    if isinstance(reply, cmd.Reject):
        return

    def is_over() -> bool:
        return driver.count(ev.TurnFinished) > ended

    if action.stops >= 0:
        index = begun + action.stops % action.candidates
        await driver.until(lambda: is_over() or len(_list_begun(driver)) > index, "the beginning of a candidate")
        if not is_over():
            await driver.engine.submit(cmd.TurnInterrupt(session=_list_begun(driver)[index]))
    await driver.until(is_over, "the end of the candidates")
    await driver.engine.wait_idle(driver.session)
    driver.look(Allowance())


def _list_begun(driver: Driver) -> list[str]:
    return [event.id for event in driver.heard if isinstance(event, ev.SubagentStarted) and event.candidate_of]


async def _take(driver: Driver, action: act.Take) -> None:
    answer = await driver.engine.query(CandidatesQuery(session=driver.session))
    if not isinstance(answer, CandidatesAnswer) or not answer.candidates:
        return
    chosen = answer.candidates[action.at % len(answer.candidates)]
    pick = cmd.CandidatePick(id=chosen.id)
    if action.what != "all" and chosen.changes:
        change = chosen.changes[action.at % len(chosen.changes)].change
        hunks = tuple(hunk.id for hunk in change.hunks) if action.what == "hunk" else ()
        pick = cmd.CandidatePick(id=chosen.id, path=change.path, hunks=hunks[: 1 + action.at % 2])
    await driver.do(cmd.BestTake(session=driver.session, picks=(pick,)))


async def _forget(driver: Driver, action: act.Forget) -> None:
    answer = await driver.engine.query(PermissionsQuery(session=driver.session))
    if isinstance(answer, PermissionsAnswer) and answer.kept:
        removed = answer.kept[action.at % len(answer.kept)].id
        await driver.do(cmd.PermissionRemove(session=driver.session, id=removed))


async def _commit(driver: Driver, action: act.Commit) -> None:
    """Commit what is proposed. Git moves, and holds nothing that nobody accepted; no file of the user's changes."""
    answer = await driver.engine.query(CommitQuery(session=driver.session, split=action.split))
    if not isinstance(answer, CommitAnswer) or not answer.groups:
        return
    commits = tuple(cmd.PlannedCommit(message=group.message, edits=group.edits) for group in answer.groups)
    commit_count, failed = driver.count(ev.CommitMade), driver.count(ev.CommitFailed)
    await driver.do(cmd.CommitMake(session=driver.session, head=answer.head, commits=commits), Allowance(git=True))

    def is_over() -> bool:
        return driver.count(ev.CommitFailed) > failed or driver.count(ev.CommitMade) == commit_count + len(commits)

    await driver.until(is_over, "the end of a commit")
    driver.look(Allowance(git=True))
    again = await driver.engine.query(CommitQuery(session=driver.session))
    if driver.count(ev.CommitFailed) == failed and isinstance(again, CommitAnswer) and again.groups:
        raise Broken(f"committed, and still to be committed: {again.groups}")


def _list_pending(driver: Driver) -> list[tuple[object, ...]]:
    """List what waits, without what is found out about it meanwhile: whether it parses, what has passed over it."""
    return [
        (change.path, change.base, change.pending, change.hunks, change.conflict) for change in driver.list_changes()
    ]


async def _review(driver: Driver, action: act.Review) -> None:
    """Review. Nothing that is pending changes by it, and the mode is the user's again; what was found is reported."""
    state, pending = driver.runtime.state, _list_pending(driver)
    mode, reported = state.mode, driver.count(ev.FindingsReported)
    is_done = await _run_turn(
        driver, cmd.TurnSubmit(session=driver.session, text=f"/review {action.of}".strip()), action
    )
    if _list_pending(driver) != pending:
        raise Broken("a review changed what is pending")
    if state.mode != mode:
        raise Broken(f"a review left the mode at {state.mode}, it was {mode}")
    if is_done:
        code_review = state.review.code_review
        if (
            driver.count(ev.FindingsReported) != reported + 1
            or code_review is None
            or len(code_review.findings) != action.findings
        ):
            raise Broken(f"{action.findings} findings were said, and reported were {code_review}")


async def _settle_finding(driver: Driver, action: act.Finding) -> None:
    """Dismiss or fix. Each that is named stands as was asked for, and a fix is made with the rights of Agent mode."""
    state = driver.runtime.state
    review = state.review.code_review
    if review is None or not review.findings:
        return
    one = review.findings[action.at % len(review.findings)].id
    if action.how == "dismiss":
        expected_standing = "open" if review.get_standing(one).standing == "dismissed" else "dismissed"
        await driver.do(cmd.FindingsDismiss(session=driver.session, ids=(one,)))
        chosen = (one,)
    else:
        chosen, expected_standing = (
            ((one,) if action.how == "fix" else tuple(finding.id for finding in review.list_open())),
            "fixing",
        )
        ids = chosen if action.how == "fix" else ()
        if not await _run_turn(driver, cmd.FindingsFix(session=driver.session, ids=ids), action):
            return
        if state.mode != "agent":
            raise Broken(f"findings were fixed in the mode {state.mode}")
    now = state.review.code_review
    if now is None or any(now.get_standing(finding_id).standing != expected_standing for finding_id in chosen):
        raise Broken(f"{chosen} should be {expected_standing}: {now}")


async def _run_turn(driver: Driver, command: cmd.AnyCommand, action: act.Review | act.Finding) -> bool:
    """Have a command's turn played to its end; True if it was done, False if it was refused or came to nothing."""
    driver.model.begin(act.Turn(steps=action.steps))
    ended = driver.count(ev.TurnFinished)
    if isinstance(await driver.do(command), cmd.Reject):
        return False
    await driver.until(lambda: driver.count(ev.TurnFinished) > ended, "the end of a turn about findings")
    await driver.engine.wait_idle(driver.session)
    driver.look(Allowance())
    return next(event.reason for event in reversed(driver.heard) if isinstance(event, ev.TurnFinished)) == "done"
