"""Commands that start, steer and stop turns, and those about what is typed for them."""

from __future__ import annotations

from functools import partial
from typing import Final

from core.engine.commands.attachments import check_model_accepts, prepend_labels
from core.engine.commands.limits import check_prompt_allowed
from core.engine.session.session import Session
from core.engine.session.tasks import Effect
from core.engine.session.turns import ask_model, compact_history, reserve_turn, start_turn
from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol.events import DraftKept

MAX_TEXT: Final = 4_000_000  # characters


async def prepare_submit(session: Session, command: cmd.TurnSubmit) -> Effect:
    check_prompt_allowed(session, command)
    text = prepend_labels(command.text, command.attachments, session)
    check_text(text, "prompt")
    await check_model_accepts(session, text)
    await reserve_turn(session)
    return partial(start_turn, session, ask_model(text, command.open_files), text)


async def prepare_steer(session: Session, command: cmd.TurnSteer) -> Effect:
    text = prepend_labels(command.text, command.attachments, session)
    check_text(text, "message")
    await check_model_accepts(session, text)
    _check_turn_running(session)
    if session.turn_slot.is_stopping:
        raise CommandRejected("the turn is being stopped.", hint="Send it as a prompt.", code="turn_stopping")
    return partial(session.steer, text)


def prepare_unsteer(session: Session, command: cmd.TurnUnsteer) -> Effect:
    """Give back messages that no model was sent yet."""
    waiting = session.state.pending_steers
    if not (waiting.keys() & set(command.ids) if command.ids else waiting):
        raise CommandRejected("nothing waits: the model was sent all that was said.", code="nothing_queued")
    return partial(session.return_steers, command.ids)


def prepare_draft(session: Session, command: cmd.DraftKeep) -> Effect:
    """Save the text of the prompt if it is news."""

    def save() -> None:
        if command.text != session.state.draft:
            session.emit_outside_turn(DraftKept(text=command.text))

    return save


def prepare_interrupt(session: Session, _: cmd.TurnInterrupt) -> Effect:
    """Interrupt the turn; where none runs, the user's own commands."""
    if not session.turn_slot.is_running and session.tasks.has_running_commands:
        return session.tasks.stop_commands
    _check_turn_running(session)
    session.turn_slot.is_stopping = True
    return session.turn_slot.interrupt


async def prepare_compaction(session: Session, _: cmd.ContextCompact) -> Effect:
    """Replace the history by a summary; nothing else runs meanwhile."""
    if not session.state.messages:
        raise CommandRejected("there is nothing to compact yet.", code="nothing_to_compact")
    await reserve_turn(session)
    return partial(start_turn, session, compact_history, None)


def _check_turn_running(session: Session) -> None:
    if not session.turn_slot.is_running:
        raise CommandRejected("no turn is running.", code="no_turn")


def check_text(text: str, what: str) -> None:
    """Raise `CommandRejected` for a text that is empty or too long; `what` names it."""
    if not text.strip():
        raise CommandRejected(f"the {what} is empty.", code="empty_text")
    if len(text) > MAX_TEXT:
        raise CommandRejected(
            f"the {what} has {len(text):,} characters; at most {MAX_TEXT:,} can be sent.",
            hint="Put it into a file and name the file.",
            code="text_too_long",
        )
