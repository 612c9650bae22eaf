"""One tool call on its way through the gate, how it ends, and the record that its documents are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, cast

from msgspec import Struct, field
from msgspec.structs import replace

from core.agent.answer.call_documents import FinishedCall, decode_arguments
from core.agent.answer.documents import OpenDocument
from core.agent.base.call_lease import CallLease
from core.agent.base.permissions import WeighedRequest
from core.agent.gate.capabilities import UserPrompter
from core.clock import monotonic
from core.crash_reports import save_crash_report
from core.errors import AgentTuiError, ToolInputInvalid
from core.modes import Access
from core.permissions.approval import Approval, is_service
from core.protocol.events import ToolStatus
from core.protocol.messages import ToolCall
from core.sandbox.box import Tier
from core.shell.long_output import extract_first_line
from core.shell.program_run import ProgramAnswer
from core.tools.base import Detail, TerminalDetail, Tool, ToolOutcome
from core.tools.builtin.terminal.run_terminal_cmd import RunTerminalCmd

NOT_RUN = "Cancelled by the user before it ran."
DENIED: Final = "permission_denied"
FAILED: Final = "tool_failed"
UNEXPECTED: Final = "internal"


class CallStopped(Exception):
    """Raised by a stage to end the call with a status and a text for the model. `code`: the error code."""

    def __init__(self, status: ToolStatus, text: str, *, code: str = "") -> None:
        super().__init__(text)
        self.status: ToolStatus = status
        self.text = text
        self.code = code


class GatedCall(Struct, eq=False):
    """One tool call. `document` shows it; `problem`: why it must not run; `is_truncated`: the length limit cut it.

    `name`: the name that the model used, then the tool's; `subject`: the path, command or the like of the call;
    `weighed`: its requested permissions, which are granted to this command alone; `received`: hosts that have answered
    it; `error_code`, `error_hint`: the code of its error, and advice; `changed_by`: a sentence about the hook that
    changed its arguments; `hook_output`: the result as a hook rewrote it, None = none did; `is_parallel`: it runs at
    the same time as others of its step; `is_malformed`: the model's arguments are invalid, independent of the project;
    `is_ruled`: a rule alone let it out of the box. `notes`: what the model has to know about its arguments; `inner`:
    the calls of the program that it runs; `parent`: the call whose program made it, "" = the model made it.
    """

    request: ToolCall
    document: OpenDocument
    name: str
    problem: str | None = None
    is_truncated: bool = False
    access: Access | None = None
    tool: Tool[object] | None = None
    subject: str = ""
    approval: Approval = Approval(subject="")
    approved_paths: tuple[str, ...] = ()
    lease: CallLease = field(default_factory=CallLease)
    capability: object = None
    outcome: ToolOutcome = ToolOutcome(content="")
    status: ToolStatus = "cancelled"
    text: str = NOT_RUN
    spilled: str = ""
    is_malformed: bool = False
    notes: tuple[str, ...] = ()
    proposed_command: str = ""
    weighed: WeighedRequest = WeighedRequest()
    received: tuple[str, ...] = ()
    error_code: str = ""
    error_hint: str = ""
    changed_by: str | None = None
    hook_output: str | None = None
    is_parallel: bool = False
    is_recorded: bool = False
    is_ruled: bool = False
    parent: str = ""
    inner: list[GatedCall] = field(default_factory=list)
    started: float = field(default_factory=monotonic)

    @property
    def has_failed(self) -> bool:
        return self.status in {"failed", "denied"}

    @property
    def is_unsandboxed(self) -> bool:
        """True if the user approved this command outside the box."""
        return "all" in self.approval.permissions

    def format_preamble(self) -> str:
        """Return lines for the start of the result: another command than the model's ran, or with less permissions."""
        notes = "".join(f"[{note}]\n" for note in (*self.notes, *self.weighed.notes))
        if self.changed_by is not None:
            return f"{self.changed_by} It is now: {self.subject}\n{notes}"
        if not self.proposed_command or self.proposed_command == self.subject:
            return notes
        return f"The user ran another command: {self.subject}\n{notes}"


def fail_call(call: GatedCall, error: Exception) -> None:
    """End a call with an error, described for the model."""
    call.status = error.status if isinstance(error, CallStopped) else "failed"
    if isinstance(error, CallStopped):
        call.text, call.error_code = error.text, error.code
    elif isinstance(error, AgentTuiError):
        call.text, call.error_code, call.error_hint = error.format_with_hint(), error.code, error.hint
        # Errors of a running tool (no match, two matches, file not read yet) do not mean that arguments are malformed.
        call.is_malformed = isinstance(error, ToolInputInvalid) and call.tool is None
    else:
        name = Path(save_crash_report(error, f"the tool {call.name}")).name
        report_note = f" (saved as crash report {name})" if name else ""
        call.text = f"The tool failed unexpectedly ({type(error).__name__}){report_note}; try another way."
        call.error_code = UNEXPECTED


def build_inner_answer(call: GatedCall) -> ProgramAnswer:
    """Build the answer to the program that made a call which has ended."""
    if call.status != "completed":
        return ProgramAnswer(error=call.text)
    detail, build_data = call.outcome.detail, call.outcome.build_data
    if isinstance(detail, TerminalDetail):
        output = detail.output if call.hook_output is None else call.hook_output
        return ProgramAnswer({"exit_code": detail.exit_code, "output": output, "text": call.text})
    if build_data is None:
        return ProgramAnswer(call.text)
    data = build_data()
    return ProgramAnswer(data.value, note=f"[{call.name} {call.subject}: {data.note}]" if data.note else "")


def build_finished_call(call: GatedCall, root: str) -> FinishedCall:
    """Build the record of a call for its documents. `root`: the workspace."""
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
        detail=_describe_grants(call),
        attachments=tuple(attachment.attachment for attachment in call.outcome.attachments),
        title=prompter.title if prompter else "",
        questions=prompter.questions if prompter else (),
        answers=prompter.answers if prompter else (),
        root=root,
        paths=call.tool.paths() if call.tool is not None else (),
        error_code=code if call.has_failed else "",
        error_hint=call.error_hint,
    )


def _describe_grants(call: GatedCall) -> Detail:
    """Return the detail, that of a command with the granted instead of the requested permissions.

    The network counts as granted if the command could reach a host."""
    detail = call.outcome.detail
    if not isinstance(detail, TerminalDetail) or call.is_unsandboxed:
        return detail
    permissions = [permission for permission in detail.permissions if permission != "network"]
    was_requested = len(permissions) < len(detail.permissions)
    could_reach = call.approval.tier == Tier.NONE.value or any(
        not is_service(target) for target in call.approval.network
    )
    if call.weighed.hosts or call.received or (was_requested and could_reach):
        permissions.insert(0, "network")
    return replace(
        detail,
        permissions=(*permissions, *(service for service in call.weighed.services if service not in permissions)),
    )


def _list_arguments(call: GatedCall) -> dict[str, Any]:
    """Return the arguments as the model wrote them; those of a command as they were approved."""
    arguments, tool = decode_arguments(call.request.arguments), cast("object", call.tool)
    if not isinstance(tool, RunTerminalCmd):
        return arguments
    return arguments | {"command": tool.command, "required_permissions": list(tool.required_permissions)}
