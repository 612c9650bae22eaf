"""Commands that start, steer and stop turns, and those about what is typed for them."""

from __future__ import annotations

from functools import partial
from typing import Final

from core.engine.commands.attachments import check_model_accepts
from core.engine.session.session import Session
from core.engine.session.tasks import Effect
from core.engine.session.turns import ask_model, compact_history, reserve_turn, start_turn
from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol.events import DraftKept

MAX_TEXT: Final = 4_000_000  # characters
HUMAN_POLICY: Final = "you type the commands here (policy `human`), and no model is asked."
HUMAN_POLICY_HINT: Final = "Send it as `!command`, ask the agent with `?question`, or let it work with /policy confirm."


async def prepare_submit(session: Session, command: cmd.TurnSubmit) -> Effect:
    if session.settings.commands.policy == "human" and not command.anyway:
        raise CommandRejected(HUMAN_POLICY, hint=HUMAN_POLICY_HINT, code="typed_by_user")
    text = await _check_prompt(session, command, "prompt")
    await reserve_turn(session)
    return partial(start_turn, session, partial(ask_model, prompt=text, open_files=command.open_files), text)


async def prepare_steer(session: Session, command: cmd.TurnSteer) -> Effect:
    text = await _check_prompt(session, command, "message")
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


async def _check_prompt(session: Session, command: cmd.TurnSubmit | cmd.TurnSteer, what: str) -> str:
    """Return the text of a prompt with the labels that are missing from it put first. Raises `CommandRejected` for an
    unknown label, for no or too much text, and for what the model can't be sent."""
    known, text = session.state.attachments, command.text
    if unknown := [each for each in command.attachments if each not in known]:
        raise CommandRejected(
            f"nothing is attached as {unknown[0]}.", hint="Attach it first.", code="attachment_unknown"
        )
    text = " ".join((*(each for each in command.attachments if each not in text), text))
    check_text(text, what)
    if known or "@" in text:
        await check_model_accepts(session, text)
    return text


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
