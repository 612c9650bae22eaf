"""A prompt from beginning to end: what goes with it, its turn, the plan that may follow, and the review."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from core.acp.agent_methods import StopReason
from core.acp.client_methods import PermissionOption
from core.acp.connection import AUTH_REQUIRED, INTERNAL_ERROR, INVALID_REQUEST, AcpError
from core.acp.content import ContentBlock, ToolCallLocation, ToolCallUpdate
from core.acp.updates import ToolCallChanged, ToolCallStarted
from core.protocol import commands as cmd
from core.protocol.documents import ErrorDocument
from core.state.session import TurnState
from core.transports.acp.prompts import PromptParts, convert_prompt
from core.transports.acp.review import resolve_named, review_all, review_turn
from core.transports.acp.session import OWN_COMMANDS, FollowedSession
from core.transports.acp.tool_calls import build_text

_NO_MODEL: Final = {"KEY_MISSING", "KEY_REJECTED", "NO_MODEL"}


async def run_prompt(session: FollowedSession, blocks: tuple[ContentBlock, ...]) -> StopReason:
    """Run a prompt and return why it stopped. Raises `AcpError`; nothing of the prompt counts then."""
    if session.printer.is_prompted:
        raise AcpError("a prompt of this session is running; cancel it first", number=INVALID_REQUEST)
    session.begin_prompt()
    try:
        return await _run(session, convert_prompt(blocks, session.root))
    finally:
        session.printer.is_prompted = False


async def _run(session: FollowedSession, parts: PromptParts) -> StopReason:
    if await _run_own_command(session, parts.text):
        return "cancelled" if session.is_cancelled() else "end_turn"
    await _ask_for_trust(session)
    adds = [cmd.AttachmentAdd(session=session.id, data=data, name=name) for name, data in parts.files]
    labels = await session.attached.attach(adds)
    if session.is_cancelled():
        return "cancelled"
    plans = set(session.state.plans)
    submit = cmd.TurnSubmit(session=session.id, text=parts.text, attachments=labels, pasted=tuple(parts.pasted))
    turn = await _run_turn(session, submit)
    if turn.reason == "done" and (path := _find_new_plan(session, plans)) and await _ask_to_build(session, path):
        turn = await _run_turn(session, cmd.PlanBuild(session=session.id, path=path))
    if not session.is_cancelled():
        await review_turn(session, turn.id)
    return "cancelled" if session.is_cancelled() else _find_stop_reason(turn)


async def _run_turn(session: FollowedSession, command: cmd.AnyCommand) -> TurnState:
    """Run a turn to its end."""
    turns = len(session.state.turns)
    await session.submit(command)
    if session.is_cancelled():
        session.cancel()  # it came before there was a turn to interrupt
    await session.wait_until(lambda: len(session.state.turns) > turns and bool(session.state.turns[-1].reason))
    return session.state.turns[-1]


def _find_stop_reason(turn: TurnState) -> StopReason:
    """Return why a turn stopped. Raises `AcpError` for one that failed."""
    if turn.reason == "interrupted":
        return "cancelled"
    if turn.reason == "limit":
        return "max_tokens" if "max_tokens" in turn.message else "max_turn_requests"
    if turn.reason == "failed":
        error_documents = [
            document for document in turn.list_finished_documents() if isinstance(document, ErrorDocument)
        ]
        codes = {error_document.metadata.error_code for error_document in error_documents}
        if "MODEL_REFUSED" in codes:
            return "refusal"
        message = (
            turn.message
            or next((error_document.content for error_document in error_documents if error_document.content), "")
            or "the turn failed"
        )
        raise AcpError(message, number=AUTH_REQUIRED if codes & _NO_MODEL else INTERNAL_ERROR)
    return "end_turn"


async def _run_own_command(session: FollowedSession, text: str) -> bool:
    """Carry out a command that is about the session and no prompt. False: it is none."""
    name, _, rest = text.strip().partition(" ")
    if not name.startswith("/") or name[1:] not in OWN_COMMANDS:
        return False
    path = rest.strip().removeprefix("@")
    match name[1:]:
        case "review":
            await review_all(session)
        case "compact":
            await session.submit(cmd.ContextCompact(session=session.id))
        case "accept":
            await resolve_named(session, path, "accept")
        case _:
            await resolve_named(session, path, "reject")
    await session.settle()
    return True


async def _ask_for_trust(session: FollowedSession) -> None:
    """Ask about the project's own instructions while that is open; without a yes they are not read."""
    trust = session.state.trust
    if trust is None or trust.state != "asked" or not (withheld_names := (*trust.changed, *trust.holds, *trust.hooks)):
        return
    call = ToolCallUpdate(
        tool_call_id=f"trust-{session.state.seq}",
        kind="other",
        status="pending",
        title=f"Trust {trust.directory}?",
        content=(
            build_text(f"Until you do, these are not read and nothing of them runs:\n{chr(10).join(withheld_names)}"),
        ),
        locations=(ToolCallLocation(path=str(session.root)),),
        raw_input={"directory": trust.directory, "holds": [*trust.holds], "hooks": [*trust.hooks]},
    )
    options = (
        PermissionOption(option_id="trust", name="Trust this project", kind="allow_always"),
        PermissionOption(option_id="no", name="Not now", kind="reject_once"),
    )
    if choice := await _choose(session, call, options):
        await session.submit(cmd.TrustSet(session=session.id, trusted=choice == "trust"))
        await session.settle()


def _find_new_plan(session: FollowedSession, known_paths: set[str]) -> str:
    """Return the path of a plan that was made in this turn and waits to be built, "" = there is none."""
    path = session.state.current_plan_path
    return path if session.state.mode == "plan" and path not in known_paths and path in session.state.plans else ""


async def _ask_to_build(session: FollowedSession, path: str) -> bool:
    """Ask whether Plan is left for Agent, to build a plan."""
    plan = session.state.plans[path]
    call = ToolCallUpdate(
        tool_call_id=f"build-{session.state.seq}",
        kind="switch_mode",
        status="pending",
        title=f"Build the plan “{plan.name}”?",
        content=(build_text(f"{plan.overview}\n\n{plan.body}".strip()),),
        locations=(ToolCallLocation(path=str(session.root / Path(path))),),
        raw_input={"plan": path, "mode": "agent"},
    )
    options = (
        PermissionOption(option_id="agent", name="Switch to Agent and build it", kind="allow_once"),
        PermissionOption(option_id="plan", name="Stay in Plan", kind="reject_once"),
    )
    return await _choose(session, call, options) == "agent"


async def _choose(session: FollowedSession, call: ToolCallUpdate, options: tuple[PermissionOption, ...]) -> str:
    """Show a call of the program's own while the user chooses."""
    session.notify(
        ToolCallStarted(
            tool_call_id=call.tool_call_id,
            title=call.title or "",
            kind=call.kind or "other",
            content=call.content or (),
            locations=call.locations or (),
            raw_input=call.raw_input,
        )
    )
    choice = await session.choose(call, options)
    is_yes = any(option.option_id == choice and option.kind.startswith("allow") for option in options)
    session.notify(ToolCallChanged(tool_call_id=call.tool_call_id, status="completed" if is_yes else "failed"))
    return choice
