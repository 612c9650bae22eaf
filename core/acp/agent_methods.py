"""Methods that a client calls at an agent: their parameters and results."""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import field

from core.acp.client_methods import SessionConfigOption
from core.acp.content import AcpBlock, AcpRecord, ContentBlock

PROTOCOL_VERSION: Final = 1
StopReason = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]


class Implementation(AcpRecord, frozen=True, kw_only=True):
    name: str
    version: str
    title: str | None = None


class FileSystemCapabilities(AcpRecord, frozen=True, kw_only=True):
    read_text_file: bool = False
    write_text_file: bool = False


class ClientSessionCapabilities(AcpRecord, frozen=True, kw_only=True):
    compaction: dict[str, Any] | None = None
    config_options: dict[str, Any] | None = None
    notices: dict[str, Any] | None = None


class AuthCapabilities(AcpRecord, frozen=True, kw_only=True):
    terminal: bool = False


class ElicitationCapabilities(AcpRecord, frozen=True, kw_only=True):
    """A kind is supported only if its field is present; an empty object supports neither."""

    form: dict[str, Any] | None = None
    url: dict[str, Any] | None = None


class ClientCapabilities(AcpRecord, frozen=True, kw_only=True):
    """A capability that is left out is not supported."""

    fs: FileSystemCapabilities = FileSystemCapabilities()
    terminal: bool = False
    session: ClientSessionCapabilities | None = None
    auth: AuthCapabilities = AuthCapabilities()
    elicitation: ElicitationCapabilities | None = None


class InitializeRequest(AcpRecord, frozen=True, kw_only=True):
    protocol_version: int
    client_capabilities: ClientCapabilities = ClientCapabilities()
    client_info: Implementation | None = None


class PromptCapabilities(AcpRecord, frozen=True, kw_only=True):
    image: bool = False
    audio: bool = False
    embedded_context: bool = False


class McpCapabilities(AcpRecord, frozen=True, kw_only=True):
    http: bool = False
    sse: bool = False


class SessionCapabilities(AcpRecord, frozen=True, kw_only=True):
    """An empty object = supported."""

    list: dict[str, Any] | None = None
    delete: dict[str, Any] | None = None
    additional_directories: dict[str, Any] | None = None
    resume: dict[str, Any] | None = None
    close: dict[str, Any] | None = None


class AgentAuthCapabilities(AcpRecord, frozen=True, kw_only=True):
    logout: dict[str, Any] | None = None


class AgentCapabilities(AcpRecord, frozen=True, kw_only=True):
    load_session: bool = False
    prompt_capabilities: PromptCapabilities = PromptCapabilities()
    mcp_capabilities: McpCapabilities = McpCapabilities()
    session_capabilities: SessionCapabilities = SessionCapabilities()
    auth: AgentAuthCapabilities = AgentAuthCapabilities()


class AuthMethodAgent(AcpRecord, frozen=True, kw_only=True):
    """A login that the agent handles; it has no `type`."""

    id: str
    name: str
    description: str | None = None


class AuthMethodTerminal(AcpBlock, frozen=True, kw_only=True, tag="terminal"):
    """A login in a terminal: the client starts the agent's command with these arguments appended."""

    id: str
    name: str
    description: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)


class InitializeResponse(AcpRecord, frozen=True, kw_only=True):
    protocol_version: int
    agent_capabilities: AgentCapabilities = AgentCapabilities()
    auth_methods: tuple[AuthMethodAgent | AuthMethodTerminal, ...] = ()
    agent_info: Implementation | None = None


class AuthenticateRequest(AcpRecord, frozen=True, kw_only=True):
    method_id: str


class NewSessionRequest(AcpRecord, frozen=True, kw_only=True):
    """`cwd` is absolute. An entry of `mcp_servers` has one of the three shapes of `content`, by its `type`."""

    cwd: str
    mcp_servers: tuple[dict[str, Any], ...]
    additional_directories: tuple[str, ...] = ()


class LoadSessionRequest(NewSessionRequest, frozen=True, kw_only=True):
    session_id: str


class ResumeSessionRequest(AcpRecord, frozen=True, kw_only=True):
    session_id: str
    cwd: str
    mcp_servers: tuple[dict[str, Any], ...] = ()
    additional_directories: tuple[str, ...] = ()


class SessionMode(AcpRecord, frozen=True, kw_only=True):
    id: str
    name: str
    description: str | None = None


class SessionModeState(AcpRecord, frozen=True, kw_only=True):
    current_mode_id: str
    available_modes: tuple[SessionMode, ...]


class LoadSessionResponse(AcpRecord, frozen=True, kw_only=True):
    modes: SessionModeState | None = None
    config_options: tuple[SessionConfigOption, ...] | None = None


class NewSessionResponse(LoadSessionResponse, frozen=True, kw_only=True):
    session_id: str


class ListSessionsRequest(AcpRecord, frozen=True, kw_only=True):
    cwd: str | None = None
    cursor: str | None = None


class ListedSession(AcpRecord, frozen=True, kw_only=True):
    """`updated_at` in ISO 8601."""

    session_id: str
    cwd: str
    additional_directories: tuple[str, ...] = ()
    title: str | None = None
    updated_at: str | None = None


class ListSessionsResponse(AcpRecord, frozen=True, kw_only=True):
    """`next_cursor` None: this is the last page."""

    sessions: tuple[ListedSession, ...]
    next_cursor: str | None = None


class CloseSessionRequest(AcpRecord, frozen=True, kw_only=True):
    session_id: str


class DeleteSessionRequest(AcpRecord, frozen=True, kw_only=True):
    session_id: str


class CancelNotification(AcpRecord, frozen=True, kw_only=True):
    session_id: str


class SetSessionModeRequest(AcpRecord, frozen=True, kw_only=True):
    session_id: str
    mode_id: str


class SetSessionConfigOptionRequest(AcpRecord, frozen=True, kw_only=True):
    session_id: str
    config_id: str
    value: str | bool
    type: str | None = None


class SetSessionConfigOptionResponse(AcpRecord, frozen=True, kw_only=True):
    config_options: tuple[SessionConfigOption, ...]


class PromptRequest(AcpRecord, frozen=True, kw_only=True):
    session_id: str
    prompt: tuple[ContentBlock, ...]


class PromptResponse(AcpRecord, frozen=True, kw_only=True):
    stop_reason: StopReason
