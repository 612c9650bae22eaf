"""Methods that an agent calls at its client: updates of a session, permissions, questions, files.

`session/update` notifies the client of what the agent says and does, as it happens.
"""

from __future__ import annotations

from typing import Any, Literal

from core.acp.content import (
    AcpRecord,
    ContentBlock,
    ToolCallContent,
    ToolCallLocation,
    ToolCallStatus,
    ToolCallUpdate,
    ToolKind,
)

PermissionOptionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always"]
PlanEntryStatus = Literal["pending", "in_progress", "completed"]


class PermissionOption(AcpRecord, frozen=True, kw_only=True):
    option_id: str
    name: str
    kind: PermissionOptionKind


class RequestPermissionRequest(AcpRecord, frozen=True, kw_only=True):
    """`tool_call` is complete: the user must be able to decide without earlier updates."""

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
    """One value of a choice. `value`: the value that is returned."""

    value: str
    title: str
    description: str | None = None

    def to_schema(self) -> dict[str, str]:
        """Return the option as JSON Schema."""
        return {"const": self.value, "title": self.title}


class ElicitationSchema(AcpRecord, frozen=True, kw_only=True, tag_field="type", tag="object"):
    """A form: a JSON Schema of an object with properties that are texts, numbers, booleans or lists of choices."""

    properties: dict[str, dict[str, Any]]
    title: str | None = None
    description: str | None = None
    required: tuple[str, ...] | None = None


class CreateElicitationRequest(AcpRecord, frozen=True, kw_only=True, tag_field="mode", tag="form"):
    """A form for the user, for a session and optionally for one of its tool calls."""

    message: str
    session_id: str
    requested_schema: ElicitationSchema
    tool_call_id: str | None = None


class CreateElicitationResponse(AcpRecord, frozen=True, kw_only=True):
    """`action`: accept, decline or cancel; `content`: values by the names of the form's properties."""

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


class UserMessageChunk(AcpRecord, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="user_message_chunk"):
    content: ContentBlock
    message_id: str | None = None


class AgentMessageChunk(AcpRecord, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="agent_message_chunk"):
    content: ContentBlock
    message_id: str | None = None


class AgentThoughtChunk(AcpRecord, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="agent_thought_chunk"):
    content: ContentBlock
    message_id: str | None = None


class ToolCallStarted(AcpRecord, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="tool_call"):
    tool_call_id: str
    title: str
    name: str | None = None
    kind: ToolKind = "other"
    status: ToolCallStatus = "pending"
    content: tuple[ToolCallContent, ...] = ()
    locations: tuple[ToolCallLocation, ...] = ()
    raw_input: Any = None
    raw_output: Any = None


class ToolCallChanged(ToolCallUpdate, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="tool_call_update"):
    """The changed fields of a tool call."""


class PlanEntry(AcpRecord, frozen=True, kw_only=True):
    content: str
    priority: Literal["high", "medium", "low"]
    status: PlanEntryStatus


class PlanShown(AcpRecord, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="plan"):
    """The whole plan, which replaces the previous one."""

    entries: tuple[PlanEntry, ...]


class UnstructuredCommandInput(AcpRecord, frozen=True, kw_only=True):
    hint: str


class AvailableCommand(AcpRecord, frozen=True, kw_only=True):
    """A command that a prompt can call by `/name`."""

    name: str
    description: str
    input: UnstructuredCommandInput | None = None


class AvailableCommandsUpdate(
    AcpRecord, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="available_commands_update"
):
    available_commands: tuple[AvailableCommand, ...]


class CurrentModeUpdate(AcpRecord, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="current_mode_update"):
    current_mode_id: str


class SessionConfigSelectOption(AcpRecord, frozen=True, kw_only=True):
    value: str
    name: str
    description: str | None = None


class SessionConfigOption(AcpRecord, frozen=True, kw_only=True, tag_field="type", tag="select"):
    """A choice of one value. `category`: mode, model, model_config, thought_level, or a custom one that begins with
    `_`."""

    id: str
    name: str
    current_value: str
    options: tuple[SessionConfigSelectOption, ...]
    description: str | None = None
    category: str | None = None


class ConfigOptionUpdate(AcpRecord, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="config_option_update"):
    """All options with their values."""

    config_options: tuple[SessionConfigOption, ...]


class SessionInfoUpdate(AcpRecord, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="session_info_update"):
    """`updated_at` in ISO 8601."""

    title: str | None = None
    updated_at: str | None = None


class Cost(AcpRecord, frozen=True, kw_only=True):
    amount: float
    currency: str


class UsageUpdate(AcpRecord, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="usage_update"):
    """`used` and `size` of the context window, in tokens; `cost` of the session so far."""

    used: int
    size: int
    cost: Cost | None = None


class NoticeShown(AcpRecord, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="notice"):
    severity: str
    title: str
    description: str | None = None


class CompactionUpdate(AcpRecord, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="compaction_update"):
    compaction_id: str
    status: str
    summary: tuple[ContentBlock, ...] | None = None
    error: str | None = None


class CompactionSummaryChunk(
    AcpRecord, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="compaction_summary_chunk"
):
    compaction_id: str
    content: ContentBlock


SessionUpdate = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCallStarted
    | ToolCallChanged
    | PlanShown
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
    | NoticeShown
    | CompactionUpdate
    | CompactionSummaryChunk
)


class SessionNotification(AcpRecord, frozen=True, kw_only=True):
    session_id: str
    update: SessionUpdate
