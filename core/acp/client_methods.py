"""Methods that an agent calls at its client: permissions, questions, files."""

from __future__ import annotations

from typing import Any, Literal

from core.acp.content import AcpRecord, ToolCallUpdate

PermissionOptionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class PermissionOption(AcpRecord, frozen=True, kw_only=True):
    option_id: str
    name: str
    kind: PermissionOptionKind


class RequestPermissionRequest(AcpRecord, frozen=True, kw_only=True):
    """`tool_call` is complete: what is to be decided on must be seen without anything that came before."""

    session_id: str
    tool_call: ToolCallUpdate
    options: tuple[PermissionOption, ...]


class CancelledPermissionOutcome(AcpRecord, frozen=True, kw_only=True, tag_field="outcome", tag="cancelled"):
    """Nobody chose: the turn was cancelled, or the request was closed."""


class SelectedPermissionOutcome(AcpRecord, frozen=True, kw_only=True, tag_field="outcome", tag="selected"):
    option_id: str


class RequestPermissionResponse(AcpRecord, frozen=True, kw_only=True):
    outcome: CancelledPermissionOutcome | SelectedPermissionOutcome


class EnumOption(AcpRecord, frozen=True, kw_only=True):
    """One value to choose. `value`: what is sent back."""

    value: str
    title: str
    description: str | None = None

    def to_schema(self) -> dict[str, str]:
        """Return it as JSON Schema says it."""
        return {"const": self.value, "title": self.title}


class ElicitationSchema(AcpRecord, frozen=True, kw_only=True, tag_field="type", tag="object"):
    """A form: a JSON Schema of an object whose properties are texts, numbers, booleans or lists of choices."""

    properties: dict[str, dict[str, Any]]
    title: str | None = None
    description: str | None = None
    required: tuple[str, ...] | None = None


class CreateElicitationRequest(AcpRecord, frozen=True, kw_only=True, tag_field="mode", tag="form"):
    """A form for the user, of a session and perhaps of a tool call in it."""

    message: str
    session_id: str
    requested_schema: ElicitationSchema
    tool_call_id: str | None = None


class CreateElicitationResponse(AcpRecord, frozen=True, kw_only=True):
    """`action`: accept, decline or cancel; `content` by the names of the form's properties."""

    action: str
    content: dict[str, Any] | None = None


class ReadTextFileRequest(AcpRecord, frozen=True, kw_only=True):
    """`path` is absolute, `line` 1-indexed; `limit` in lines."""

    session_id: str
    path: str
    line: int | None = None
    limit: int | None = None


class ReadTextFileResponse(AcpRecord, frozen=True, kw_only=True):
    content: str


class WriteTextFileRequest(AcpRecord, frozen=True, kw_only=True):
    session_id: str
    path: str
    content: str


class CancelRequestNotification(AcpRecord, frozen=True, kw_only=True):
    request_id: str | int | None
