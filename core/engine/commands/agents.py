"""Commands on other agents: the candidates that try a prompt in parallel, and background agents.

Commands on background agents take as long as their store, so they run in parallel to the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from core.agent.mentions.sources import PromptSurroundings
from core.background.control import delete_agent, pull_agent, send_message, start_agent, stop_agent
from core.background.records import AgentRequest, build_agent
from core.background.store import require_agent
from core.engine.commands.terminal import run_typed
from core.engine.commands.turns import HUMAN_POLICY, HUMAN_POLICY_HINT, check_prompt
from core.engine.session.model_routes import choose_model
from core.engine.session.session import Session
from core.engine.session.tasks import Effect
from core.engine.turns.lifecycle import reserve_turn, start_turn
from core.engine.turns.prompt_sources import find_prompt_items
from core.errors import CommandRejected
from core.modes import Mode
from core.protocol import commands as cmd
from core.protocol.events import Notice
from core.state.session import SubagentState

MIN_CANDIDATES: Final = 2  # candidates of a comparison


async def prepare_best_run(session: Session, command: cmd.BestRun) -> Effect:
    """Try a prompt with several models. Raises `CommandRejected`: too few or too many models, or a mode without
    effects; and the errors of an invalid model name."""
    from core.engine.subagents.best_of import BestOf

    text = await check_prompt(session, command, "prompt")
    if session.settings.commands.policy == "human":
        raise CommandRejected(HUMAN_POLICY, hint=HUMAN_POLICY_HINT, code="typed_by_user")
    if not MIN_CANDIDATES <= len(command.models) <= cmd.MAX_SUBAGENTS:
        message = f"a prompt can't be tried {len(command.models)} times."
        raise CommandRejected(
            message, hint=f"From {MIN_CANDIDATES} to {cmd.MAX_SUBAGENTS} can be compared.", code="best_count"
        )
    if not Mode(session.state.mode).rules.keeps_effects:
        message = f"in {session.state.mode.capitalize()} mode no changes are kept that could be compared."
        raise CommandRejected(message, hint="Switch to Agent mode first.", code="mode_keeps_nothing")
    access = session.services.models
    models = tuple(access.complete(model, session.settings) if model else "" for model in command.models)
    for model in dict.fromkeys(filter(None, models)):
        await asyncio.to_thread(access.resolve, model, session.settings)
    turn_submit = cmd.TurnSubmit(session=command.session, text=command.text)
    surroundings = PromptSurroundings(items=await find_prompt_items(session, turn_submit, text))
    await reserve_turn(session)
    best = BestOf(session, text, models, surroundings)
    return partial(start_turn, session, partial(best.run, prompt=text), text)


def prepare_best_take(session: Session, command: cmd.BestTake) -> Effect:
    """Merge parts of candidates, and run their check command over the result."""
    from core.engine.subagents.best_of import merge_picks, read_candidate

    if session.turn_slot.is_running:
        raise CommandRejected("a turn is running.", hint="Wait until it ends, or stop it first.", code="turn_running")
    if not command.picks:
        raise CommandRejected(
            "nothing was chosen.", hint="Choose a candidate, or hunks of several.", code="nothing_chosen"
        )
    for pick in command.picks:
        subagent = session.state.subagents.get(pick.id)
        if subagent is None or not subagent.candidate_of:
            raise CommandRejected(f"there is no candidate {pick.id!r}.", code="candidate_unknown")
        work = read_candidate(session, pick.id)
        if pick.path:
            work.select(work.find(pick.path), pick.hunks)

    async def take() -> None:
        await merge_picks(session, command.picks)
        await _run_check_command(
            session, [session.state.subagents[candidate_pick.id] for candidate_pick in command.picks]
        )

    return take


async def _run_check_command(session: Session, subagents: list[SubagentState]) -> None:
    """Run the check command of candidates, if it can run in a box."""
    check = next(
        (subagent.rating.check for subagent in subagents if subagent.rating is not None and subagent.rating.check), None
    )
    if check is None:
        return
    if await session.terminal.find_box():
        run_typed(session, check.command)
    else:
        message = "What you chose was not checked: commands can't be sandboxed on this machine."
        session.emit_outside_turn(Notice(level="info", message=message, hint=f"Run it yourself: !{check.command}"))


def prepare_background_start(session: Session, command: cmd.BackgroundStart) -> Effect:
    """Check the task; queue the agent in parallel to the session."""
    if session.state.is_private:
        raise CommandRejected(
            "a private session can't start background work, because that would be saved.", code="private"
        )
    request = AgentRequest(
        task_description=command.text,
        workspace_path=str(session.workspace.root),
        model=choose_model(session.state, session.settings)[0],
        mode=session.state.mode,
    )
    build_agent(request)
    return _run_in_parallel(session, partial(_start, session, request))


async def _start(session: Session, request: AgentRequest) -> None:
    link = session.services.background
    agent = await start_agent(await link.open(), request, link.program)
    message, hint = f"In the background: {agent.title}", "/background shows it, and brings its changes here."
    session.emit_outside_turn(Notice(level="info", message=message, hint=hint))


def prepare_background_message(session: Session, command: cmd.BackgroundMessage) -> Effect:
    return _run_in_parallel(session, partial(_send, session, command))


async def _send(session: Session, command: cmd.BackgroundMessage) -> None:
    link = session.services.background
    store = await link.open()
    await send_message(store, await require_agent(store, command.id), command.text, link.program)


def prepare_background_stop(session: Session, command: cmd.BackgroundStop) -> Effect:
    return _run_in_parallel(session, partial(_stop, session, command.id))


async def _stop(session: Session, name: str) -> None:
    store = await session.services.background.open()
    await stop_agent(store, await require_agent(store, name))


def prepare_background_delete(session: Session, command: cmd.BackgroundDelete) -> Effect:
    return _run_in_parallel(session, partial(_delete, session, command.id))


async def _delete(session: Session, name: str) -> None:
    store = await session.services.background.open()
    await delete_agent(store, await require_agent(store, name))


def prepare_background_pull(session: Session, command: cmd.BackgroundPull) -> Effect:
    return _run_in_parallel(session, partial(_pull, session, command.id))


async def _pull(session: Session, name: str) -> None:
    store = await session.services.background.open()
    agent = await require_agent(store, name)
    session_id = await pull_agent(store, agent, session.workspace.root)
    message, hint = f"Pending your review: {agent.title}", f"/resume {session_id} opens it."
    session.emit_outside_turn(Notice(level="info", message=message, hint=hint))


def _run_in_parallel(session: Session, work: Callable[[], Awaitable[None]]) -> Effect:
    return partial(session.run_in_parallel, work, name="background agents")
