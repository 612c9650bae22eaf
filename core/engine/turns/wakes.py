"""Start a turn when a background command has ended, so that the agent goes on with what waited for it.

The user can switch it off (`commands.wake`). A turn that was stopped or has failed is not continued, nor one that has
left a question open; and after a number of such turns in a row the next one waits for the user. Where the user types
the commands (the policy "human"), only their question calls the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import takewhile
from typing import Final

from core.agent.context.turn_context import TurnOrigin
from core.engine.session.session import Session
from core.engine.turns.lifecycle import ask_model, reserve_turn, start_turn
from core.errors import AgentTuiError
from core.prompts import render
from core.protocol.events import AnyEvent, JobEnded, TurnFinished

MAX_WAKES: Final = 5  # turns in a row without a prompt
_NOT_WAKING: Final = frozenset({"stopped", "lost"})  # ends that the user or the agent wanted, or that nobody saw


def wake_on_job_ends(session: Session) -> None:
    """Let the agent of a session go on whenever a background command of its own has ended."""

    def observe(event: AnyEvent) -> None:
        if session.turn_slot.is_running:
            session.tasks.others.spawn(_wake_after_turn(session), name="wake")
        else:
            session.tasks.schedule(partial(_wake, session))

    session.recorder.listeners.append(((JobEnded, TurnFinished), observe))


async def _wake_after_turn(session: Session) -> None:
    """Wake the agent when the turn has ended. An effect must not wait for that: those after it may stop the turn, or
    answer what it asks."""
    await session.turn_slot.wait_free()
    session.tasks.schedule(partial(_wake, session))


async def _wake(session: Session) -> None:
    """Start a turn if a background command has ended that the model does not know of yet, and nothing speaks against
    it."""
    if session.turn_slot.is_running or not _can_wake(session):
        return
    jobs = list(_list_ended_jobs(session))
    prompt = "\n".join(f"{job.id} ended: {job.command}" for job in jobs)
    with suppress(AgentTuiError):  # the user's own prompt was faster, or there is no model now
        await reserve_turn(session)
        origin = TurnOrigin(cause="job", reminder=render("reminders/job_ended"))
        start_turn(session, partial(ask_model, prompt=prompt), prompt, origin)


def _can_wake(session: Session) -> bool:
    """Return True if the user wants such turns, and the last turn is one to go on with."""
    state, options, commands = session.state, session.services.options, session.settings.commands
    if not (commands.wake and commands.policy != "human" and options.wakes and options.interactive):
        return False
    is_done = bool(state.turns) and state.turns[-1].reason == "done" and not (state.questions or state.approvals)
    return is_done and any(True for _ in _list_ended_jobs(session)) and _count_wakes(session) < MAX_WAKES


def _count_wakes(session: Session) -> int:
    """Count the latest turns that began without a prompt."""
    return sum(1 for _ in takewhile(lambda turn: turn.cause == "job", reversed(session.state.turns)))


def _list_ended_jobs(session: Session) -> Iterator[JobEnded]:
    for event in session.state.unreported_commands.values():
        if isinstance(event, JobEnded) and event.ended not in _NOT_WAKING:
            yield event
