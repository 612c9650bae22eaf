"""One tool call on its way through the gate, and the end that a stage can give it."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from core.agent.answer.documents import OpenDocument
from core.clock import monotonic
from core.errors import ToolFailed
from core.modes import Access
from core.permissions.approval import Approval
from core.protocol.events import ToolStatus
from core.protocol.messages import ToolCall
from core.protocol.review import Origin
from core.tools.base import Tool, ToolOutcome

NOT_RUN = "Cancelled by the user before it ran."


class CallStopped(Exception):
    """Raised by a stage to end the call: the text for the model, and how the call counts. `code`: of the error."""

    def __init__(self, status: ToolStatus, text: str, *, code: str = "") -> None:
        super().__init__(text)
        self.status: ToolStatus = status
        self.text = text
        self.code = code


class CallLease(Struct):
    """The lifetime of one call: its capabilities refuse to act once it has ended."""

    is_over: bool = False

    def end(self) -> None:
        self.is_over = True

    def check(self) -> None:
        if self.is_over:
            raise ToolFailed("This call is over; nothing was done.")


OpenCapability = Callable[[Origin, CallLease], object]
"""Opens what one call may do, for as long as its lease holds."""


class GatedCall(Struct, eq=False):
    """One tool call. `document` shows it; `problem`: why it must not be run; `is_truncated`: by the length limit.

    `name`: the tool's own, as soon as it is found; `subject`: the path, command or the like that the call is about.
    `hosts`, `services`: granted to this command alone; `permission_notes`: what it asked for and was not granted;
    `received`: hosts that it had an answer from. `error_code`: why it has failed, in a word for machines; `error_hint`:
    what to do about it.
    `is_beside_others`: it runs at the same time as others of its step.
    `changed_by`: what hook changed its arguments, as a sentence. The loop learns from `has_failed`
    and `is_malformed`: no call could be made of what the model wrote, whatever the project holds.
    """

    request: ToolCall
    document: OpenDocument
    name: str
    problem: str = ""
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
    proposed_command: str = ""
    hosts: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    permission_notes: tuple[str, ...] = ()
    received: tuple[str, ...] = ()
    error_code: str = ""
    error_hint: str = ""
    changed_by: str = ""
    is_beside_others: bool = False
    is_recorded: bool = False
    started: float = field(default_factory=monotonic)

    @property
    def has_failed(self) -> bool:
        return self.status in {"failed", "denied"}

    @property
    def is_on_machine(self) -> bool:
        """True if the user let this command out of the box."""
        return "all" in self.approval.permissions

    def format_aside(self) -> str:
        """Return lines for before the result: another command than the model's ran, or it was granted less."""
        notes = "".join(f"[{note}]\n" for note in self.permission_notes)
        if self.changed_by:
            return f"{self.changed_by} It is now: {self.subject}\n{notes}"
        if not self.proposed_command or self.proposed_command == self.subject:
            return notes
        return f"The user ran another command: {self.subject}\n{notes}"
