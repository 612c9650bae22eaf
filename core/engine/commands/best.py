"""Commands that try a prompt several times side by side, and that take a candidate, or hunks of several."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from core.agent.mentions.sources import PromptSurroundings
from core.engine.commands.terminal import run_typed
from core.engine.commands.turns import HUMAN_POLICY, HUMAN_POLICY_HINT, check_prompt
from core.engine.prompt_sources import find_prompt_items
from core.engine.session.session import Session
from core.engine.session.tasks import Effect
from core.engine.session.turns import reserve_turn, start_turn
from core.errors import CommandRejected
from core.modes import Mode
from core.protocol import commands as cmd
from core.protocol.events import Notice
from core.state.session import SubagentState

LEAST: Final = 2  # candidates that can be compared


async def prepare_best_run(session: Session, command: cmd.BestRun) -> Effect:
    """Try a prompt with every one of some models. `CommandRejected`: too few or many of them, or nothing is kept here;
    what a model's name raises."""
    from core.engine.subagents.best_of import BestOf

    text = await check_prompt(session, command, "prompt")
    if session.settings.commands.policy == "human":
        raise CommandRejected(HUMAN_POLICY, hint=HUMAN_POLICY_HINT, code="typed_by_user")
    if not LEAST <= len(command.models) <= cmd.MAX_SUBAGENTS:
        message = f"a prompt can't be tried {len(command.models)} times."
        raise CommandRejected(message, hint=f"From {LEAST} to {cmd.MAX_SUBAGENTS} can be compared.", code="best_count")
    if not Mode(session.state.mode).rules.keeps_effects:
        message = f"in {session.state.mode.capitalize()} mode nothing is kept that could be compared."
        raise CommandRejected(message, hint="Switch to Agent mode first.", code="mode_keeps_nothing")
    for model in dict.fromkeys(filter(None, command.models)):
        await asyncio.to_thread(session.services.models.resolve, model, session.settings)
    turn_submit = cmd.TurnSubmit(session=command.session, text=command.text)
    surroundings = PromptSurroundings(items=await find_prompt_items(session, turn_submit, text))
    await reserve_turn(session)
    best = BestOf(session, text, command.models, surroundings)
    return partial(start_turn, session, partial(best.run, prompt=text), text)


def prepare_best_take(session: Session, command: cmd.BestTake) -> Effect:
    """Merge parts of candidates, and run the command that they were checked by over the result."""
    from core.engine.subagents.candidates import read_candidate, take_picks

    if session.turn_slot.is_running:
        raise CommandRejected("a turn is running.", hint="Wait for its end, or stop it first.", code="turn_running")
    if not command.picks:
        raise CommandRejected("nothing was chosen.", hint="Take a candidate, or hunks of some.", code="nothing_chosen")
    for pick in command.picks:
        subagent = session.state.subagents.get(pick.id)
        if subagent is None or not subagent.candidate_of:
            raise CommandRejected(f"there is no candidate {pick.id!r}.", code="candidate_unknown")
        work = read_candidate(session, pick.id)
        if pick.path:
            work.select(work.find(pick.path), pick.hunks)

    async def take() -> None:
        await take_picks(session, command.picks)
        await _check_again(session, [session.state.subagents[candidate_pick.id] for candidate_pick in command.picks])

    return take


async def _check_again(session: Session, subagents: list[SubagentState]) -> None:
    """Run the command that candidates were checked by, where what it does is contained."""
    check = next(
        (subagent.rating.check for subagent in subagents if subagent.rating is not None and subagent.rating.check), None
    )
    if check is None:
        return
    if await session.terminal.find_box():
        run_typed(session, check.command)
    else:
        message = "What you took was not checked: this machine has no box that would contain the command."
        session.emit_outside_turn(Notice(level="info", message=message, hint=f"Run it yourself: !{check.command}"))
