"""The record of a call that is over: how it ended, and what its documents are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, cast

from msgspec.structs import replace

from core.agent.answer.call_documents import FinishedCall, decode_arguments
from core.agent.gate.capabilities import UserPrompter
from core.agent.gate.gated_call import CallStopped, GatedCall
from core.clock import monotonic
from core.crash_reports import save_crash_report
from core.errors import AgentTuiError, ToolInputInvalid
from core.permissions.approval import is_service
from core.sandbox.box import Tier
from core.shell.long_output import extract_first_line
from core.tools.base import Detail, TerminalDetail
from core.tools.builtin.terminal.run_terminal_cmd import RunTerminalCmd

DENIED: Final = "permission_denied"
FAILED: Final = "tool_failed"
UNEXPECTED: Final = "internal"


def end_for(call: GatedCall, error: Exception) -> None:
    """End a call for what went wrong with it, in words for the model."""
    call.status = error.status if isinstance(error, CallStopped) else "failed"
    if isinstance(error, CallStopped):
        call.text, call.error_code = error.text, error.code
    elif isinstance(error, AgentTuiError):
        call.text, call.error_code, call.error_hint = error.format_with_hint(), error.code, error.hint
        # What was found while it ran (nothing there, two places, not read yet) says nothing against the arguments.
        call.is_malformed = isinstance(error, ToolInputInvalid) and call.tool is None
    else:
        name = Path(save_crash_report(error, f"the tool {call.name}")).name
        report_note = f" (kept as {name} among the faults)" if name else ""
        call.text = f"The tool failed unexpectedly ({type(error).__name__}){report_note}; try another way."
        call.error_code = UNEXPECTED


def build_finished_call(call: GatedCall, root: str) -> FinishedCall:
    """Build what the documents of a call are made of. `root`: the workspace."""
    prompter = call.capability if isinstance(call.capability, UserPrompter) else None
    code = call.error_code or (DENIED if call.status == "denied" else FAILED)
    return FinishedCall(
        document=call.document,
        tool=call.name,
        call=call.request.id,
        arguments=_list_arguments(call),
        has_succeeded=call.status == "completed",
        text=call.text,
        summary=call.outcome.summary or ("" if call.status == "completed" else extract_first_line(call.text)),
        duration_ms=round((monotonic() - call.started) * 1000),
        detail=_tell_granted(call),
        attachments=tuple(attachment.attachment for attachment in call.outcome.attachments),
        title=prompter.title if prompter else "",
        questions=prompter.questions if prompter else (),
        answers=prompter.answers if prompter else (),
        root=root,
        paths=call.tool.paths() if call.tool is not None else (),
        error_code=code if call.has_failed else "",
        error_hint=call.error_hint,
    )


def _tell_granted(call: GatedCall) -> Detail:
    """Return the detail; that of a command with what it was granted, not what it asked for: the network counts if it
    was let reach a host of it."""
    detail = call.outcome.detail
    if not isinstance(detail, TerminalDetail) or call.is_on_machine:
        return detail
    permissions = [permission for permission in detail.permissions if permission != "network"]
    was_asked_for = len(permissions) < len(detail.permissions)
    could_reach = call.approval.tier == Tier.NONE.value or any(
        not is_service(target) for target in call.approval.network
    )
    if call.hosts or call.received or (was_asked_for and could_reach):
        permissions.insert(0, "network")
    return replace(
        detail, permissions=(*permissions, *(service for service in call.services if service not in permissions))
    )


def _list_arguments(call: GatedCall) -> dict[str, Any]:
    """Return the arguments as they were written; of a command what was decided on stands in their place."""
    arguments, tool = decode_arguments(call.request.arguments), cast("object", call.tool)
    if not isinstance(tool, RunTerminalCmd):
        return arguments
    return arguments | {"command": tool.command, "required_permissions": list(tool.required_permissions)}
