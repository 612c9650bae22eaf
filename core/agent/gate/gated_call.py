"""One tool call on its way through the gate, and the end that a stage can give it."""

from __future__ import annotations

from core.agent.answer.documents import OpenDocument
from core.agent.gate.capabilities import CallLease
from core.clock import monotonic
from core.modes import Access
from core.permissions.approval import Approval
from core.protocol.events import ToolStatus
from core.protocol.messages import ToolCall
from core.tools.base import Tool, ToolOutcome, ToolType
from core.tools.call_tool import unwrap_call

NOT_RUN = "Cancelled by the user before it ran."


class CallStopped(Exception):
    """Raised by a stage to end the call: the text for the model, and how the call counts."""

    def __init__(self, status: ToolStatus, text: str, *, is_malformed: bool = False) -> None:
        super().__init__(text)
        self.status: ToolStatus = status
        self.text = text
        self.is_malformed = is_malformed


class GatedCall:
    """One tool call. `document` shows it; `problem`: why it must not be run; `is_truncated`: by the length limit.

    The loop learns from `has_failed` and `is_malformed`: no call could be made of what the model wrote, whatever the
    project holds.
    """

    def __init__(
        self, request: ToolCall, document: OpenDocument, *, is_truncated: bool = False, problem: str = ""
    ) -> None:
        self.request = unwrap_call(request)
        self.document = document
        self.is_truncated = is_truncated
        self.problem = problem
        self.name = self.request.name  # the tool's own name, as soon as it is found
        self.access: Access | None = None
        self.tool: Tool[object] | None = None
        self.subject = ""  # the path, command or the like that the call is about
        self.approval = Approval(subject="")
        self.approved_paths: tuple[str, ...] = ()
        self.lease = CallLease()
        self.capability: object = None
        self.outcome = ToolOutcome(content="")
        self.status: ToolStatus = "cancelled"
        self.text = NOT_RUN
        self.spilled = ""
        self.is_malformed = False
        self.proposed_command = ""
        self.is_recorded = False
        self.started = monotonic()

    def use_tool(self, tool_type: ToolType, tool: Tool[object] | None = None) -> None:
        """Set the tool that was found, and the call of it once its arguments are parsed."""
        self.name, self.access = tool_type.name, tool_type.access
        if tool is not None:
            self.tool, self.subject = tool, tool.subject()

    @property
    def has_failed(self) -> bool:
        return self.status in {"failed", "denied"}

    def format_aside(self) -> str:
        """Return a line for before the result if the user ran another command than the proposed one."""
        if not self.proposed_command or self.proposed_command == self.subject:
            return ""
        return f"The user ran another command: {self.subject}\n"

    def end(self, status: ToolStatus, text: str, *, is_malformed: bool = False) -> None:
        """End the call with the text that the model gets."""
        self.status, self.text, self.is_malformed = status, text, is_malformed
