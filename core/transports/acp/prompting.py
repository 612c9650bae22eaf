"""A prompt of an ACP client, from its content blocks to its stop reason.

Links become mentions, embedded text stands in fences, and pictures and PDFs are attached. An editor embeds its buffer,
which may not be saved, so embedded text is sent as it is and nothing in it is read as a mention. The turn may be
followed by the build of a plan, and by the review.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from msgspec import Struct, field

from core.acp.agent_methods import StopReason
from core.acp.client_methods import PermissionOption, ToolCallChanged, ToolCallStarted
from core.acp.connection import AUTH_REQUIRED, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, AcpError
from core.acp.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
    ToolCallLocation,
    ToolCallUpdate,
)
from core.protocol import commands as cmd
from core.protocol.documents import ErrorDocument
from core.state.session import TurnState
from core.transports.acp.printing import fence
from core.transports.acp.review import resolve_named, review_all, review_turn
from core.transports.acp.session import OWN_COMMANDS, FollowedSession
from core.transports.acp.tool_calls import build_text

_ATTACHED: Final = ("image/", "application/pdf")
_NO_MODEL: Final = {"KEY_MISSING", "KEY_REJECTED", "NO_MODEL"}


class PromptParts(Struct):
    """`text`: as the user would have typed it. `pasted`: spans of it, in characters, that contain no mentions. `files`:
    names and bytes to attach."""

    text: str = ""
    pasted: list[tuple[int, int]] = field(default_factory=list)
    files: list[tuple[str, bytes]] = field(default_factory=list)

    def add(self, text: str, *, is_pasted: bool = False) -> None:
        """Append text; pasted text is recorded as a span."""
        start = len(self.text)
        self.text += text
        if is_pasted:
            self.pasted.append((start, len(self.text)))


def convert_prompt(blocks: tuple[ContentBlock, ...], root: Path) -> PromptParts:
    """Convert the blocks of a prompt. Raises `AcpError` for an unsupported one."""
    parts = PromptParts()
    for block in blocks:
        match block:
            case TextContent():
                parts.add(block.text)
            case ImageContent():
                parts.files.append((_name(block.uri or "picture"), _decode(block.data, "a picture")))
            case ResourceLink():
                parts.add(_mention(block.uri, root))
            case EmbeddedResource():
                _add_embedded(parts, block.resource, root)
            case AudioContent():
                raise AcpError("audio is not supported; see promptCapabilities", number=INVALID_PARAMS)
    parts.text = parts.text.strip() if not parts.pasted else parts.text.rstrip()
    return parts


def _add_embedded(parts: PromptParts, resource: ResourceContents, root: Path) -> None:
    if resource.blob is not None:
        kind = resource.mime_type or ""
        if not kind.startswith(_ATTACHED):
            raise AcpError(
                f"{resource.uri}: {kind or 'bytes'} can't be read; send text, a picture or a PDF", number=INVALID_PARAMS
            )
        parts.files.append((_name(resource.uri), _decode(resource.blob, resource.uri)))
        return
    parts.add(f"\n\n{fence(_display_path(resource.uri, root), resource.text or '')}\n", is_pasted=True)


def _decode(data: str, subject: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise AcpError(f"{subject}: its data is not base64", number=INVALID_PARAMS) from None


def _name(uri: str) -> str:
    return Path(unquote(urlsplit(uri).path)).name or "picture"


def _display_path(uri: str, root: Path) -> str:
    """Return a path relative to the project, or the URI itself."""
    split = urlsplit(uri)
    if split.scheme not in {"", "file"}:
        return uri
    path = Path(unquote(split.path))
    try:
        label = path.relative_to(root).as_posix()
    except ValueError:
        label = str(path)
    return label + (f"#{split.fragment}" if split.fragment else "")


def _mention(uri: str, root: Path) -> str:
    """Return the mention of a resource; a file outside of the project is only named."""
    label = _display_path(uri, root)
    if label.startswith("/") or (not (is_web := uri.startswith(("http://", "https://"))) and "://" in label):
        return label
    path, mark, lines = label.partition("#")
    quoted_path = f'"{path}"' if not is_web and any(character in path for character in " ,;()[]{}|'") else path
    return f"@{quoted_path}{mark}{lines.replace(':', '-')}"


async def run_prompt(session: FollowedSession, blocks: tuple[ContentBlock, ...]) -> StopReason:
    """Run a prompt and return its stop reason. Raises `AcpError` if it had no effect."""
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
        session.cancel()  # it was cancelled before there was a turn to interrupt
    await session.wait_until(lambda: len(session.state.turns) > turns and bool(session.state.turns[-1].reason))
    return session.state.turns[-1]


def _find_stop_reason(turn: TurnState) -> StopReason:
    """Return the stop reason of a turn. Raises `AcpError` for a failed one."""
    if turn.reason == "interrupted":
        return "cancelled"
    if turn.reason == "limit":
        return "max_tokens" if "max_tokens" in turn.message else "max_turn_requests"
    if turn.reason == "failed":
        errors = [document for document in turn.list_finished_documents() if isinstance(document, ErrorDocument)]
        codes = {error.metadata.error_code for error in errors}
        if "MODEL_REFUSED" in codes:
            return "refusal"
        message = turn.message or next((error.content for error in errors if error.content), "") or "the turn failed"
        raise AcpError(message, number=AUTH_REQUIRED if codes & _NO_MODEL else INTERNAL_ERROR)
    return "end_turn"


async def _run_own_command(session: FollowedSession, text: str) -> bool:
    """Run a command about the session itself. Returns False if the text is no such command."""
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
    """Ask about the project's own instructions while trust is undecided; without a yes they are not read."""
    trust = session.state.trust
    if trust is None or trust.state != "asked" or not (withheld_names := (*trust.changed, *trust.holds, *trust.hooks)):
        return
    call = ToolCallUpdate(
        tool_call_id=f"trust-{session.state.seq}",
        kind="other",
        status="pending",
        title=f"Trust {trust.directory}?",
        content=(
            build_text(f"Until you do, these are not loaded and none of them runs:\n{chr(10).join(withheld_names)}"),
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
    """Return the path of a plan that this turn made and that can be built, "" = none."""
    path = session.state.current_plan_path
    return path if session.state.mode == "plan" and path not in known_paths and path in session.state.plans else ""


async def _ask_to_build(session: FollowedSession, path: str) -> bool:
    """Ask whether to leave Plan for Agent and build a plan."""
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
    """Show a call of the program itself while the user chooses."""
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
