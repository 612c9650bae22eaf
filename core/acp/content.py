"""Content of the Agent Client Protocol: blocks of a prompt or an answer, tool calls, MCP servers.

Names are those of the official schema (stable v1, 1.21), prefixed with "Acp" if they have another meaning here;
`tests/contract/test_acp_schema.py` compares them. Unknown fields are accepted, since a peer may be newer.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

ToolKind = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]
ToolCallStatus = Literal["pending", "in_progress", "completed", "failed"]


class AcpRecord(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of all records on the wire: names in camel case, defaults omitted."""


class AcpBlock(AcpRecord, frozen=True, kw_only=True, tag_field="type"):
    """Base of records that `type` distinguishes."""


class TextContent(AcpBlock, frozen=True, kw_only=True, tag="text"):
    text: str
    annotations: dict[str, Any] | None = None


class ImageContent(AcpBlock, frozen=True, kw_only=True, tag="image"):
    """`data` in base64."""

    data: str
    mime_type: str
    uri: str | None = None
    annotations: dict[str, Any] | None = None


class AudioContent(AcpBlock, frozen=True, kw_only=True, tag="audio"):
    """`data` in base64."""

    data: str
    mime_type: str
    annotations: dict[str, Any] | None = None


class ResourceLink(AcpBlock, frozen=True, kw_only=True, tag="resource_link"):
    """A resource that can be read. `size` in bytes."""

    name: str
    uri: str
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    title: str | None = None
    annotations: dict[str, Any] | None = None


class ResourceContents(AcpRecord, frozen=True, kw_only=True):
    """The contents of a resource: its `text`, or its bytes as `blob` in base64."""

    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None


class EmbeddedResource(AcpBlock, frozen=True, kw_only=True, tag="resource"):
    resource: ResourceContents
    annotations: dict[str, Any] | None = None


ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource


class ShownContent(AcpBlock, frozen=True, kw_only=True, tag="content"):
    content: ContentBlock


class ShownDiff(AcpBlock, frozen=True, kw_only=True, tag="diff"):
    """A file before and after. `path` is absolute; `old_text` None: the file is new."""

    path: str
    new_text: str
    old_text: str | None = None


class ShownTerminal(AcpBlock, frozen=True, kw_only=True, tag="terminal"):
    terminal_id: str


ToolCallContent = ShownContent | ShownDiff | ShownTerminal


class ToolCallLocation(AcpRecord, frozen=True, kw_only=True):
    """`path` is absolute; `line` is 1-indexed."""

    path: str
    line: int | None = None


class ToolCallUpdate(AcpRecord, frozen=True, kw_only=True):
    """The state of a tool call, or its changes: None = unchanged; `content` and `locations` are complete."""

    tool_call_id: str
    kind: ToolKind | None = None
    status: ToolCallStatus | None = None
    title: str | None = None
    name: str | None = None
    content: tuple[ToolCallContent, ...] | None = None
    locations: tuple[ToolCallLocation, ...] | None = None
    raw_input: Any = None
    raw_output: Any = None


class EnvVariable(AcpRecord, frozen=True, kw_only=True):
    name: str
    value: str


class HttpHeader(AcpRecord, frozen=True, kw_only=True):
    name: str
    value: str


class McpServerStdio(AcpRecord, frozen=True, kw_only=True):
    """A program that speaks MCP; it has no `type`."""

    name: str
    command: str
    args: tuple[str, ...]
    env: tuple[EnvVariable, ...]


class McpServerHttp(AcpBlock, frozen=True, kw_only=True, tag="http"):
    name: str
    url: str
    headers: tuple[HttpHeader, ...]


class McpServerSse(AcpBlock, frozen=True, kw_only=True, tag="sse"):
    name: str
    url: str
    headers: tuple[HttpHeader, ...]
