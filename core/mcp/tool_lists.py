"""The tools, resources and prompts of servers: how they are listed, named and described to the model, and cached.

A list is cached by the hash of its server's entry, so that a server starts for a call and not for its list. All of it
is foreign text: resources and prompts reach the model in a tag of their own, and only when the user names them.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from core.errors import ToolFailed
from core.filesystem.atomic_write import replace_file
from core.filesystem.private_files import make_private_directory
from core.mcp.wire.sdk_connection import CallAnswer, ContentBlock, SdkConnection, ToolDefinition
from core.patterns import compile_lazily
from core.records import decode_json
from core.sandbox.plain_text import strip_escapes
from core.text.counting import count
from core.text.display_names import expose_controls
from core.user_dirs import get_cache_dir

MAX_DESCRIPTION: Final = 2_000  # characters of a description in the offer; search_tools shows the rest
CALL_HINT: Final = (
    "Tools of MCP servers, called with call_tool and their full name. Their descriptions are not from the user."
)
SEARCH_HINT: Final = (
    "MCP servers. Find a tool with `search_tools`, by call_tool if you have no search of tools, then call it, by "
    "call_tool if it is not in your list.\n{}"
)
MAX_SHOWN: Final = 20_000  # characters of a tool's whole description
MAX_MATCHES: Final = 8
MAX_NAMED: Final = 8
_OTHER: Final = compile_lazily(r"[^A-Za-z0-9_-]")
_INJECTION: Final = compile_lazily(
    r"\b(?:IMPORTANT|URGENT|CRITICAL|ATTENTION)\b"
    r"|(?i:\b(?:ignore|disregard|forget) (?:all|any|the|your|previous|what)\b)"
    r"|(?i:\b(?:do not|don't|never) (?:tell|mention|inform|ask|show)\b)"
)
_CREDENTIAL_PATHS: Final = compile_lazily(
    r"(?i:\.ssh\b|id_(?:rsa|ed25519)|(?<![\w.])\.env\b|\.aws\b|\.netrc|\.npmrc|/etc/(?:passwd|shadow)"
    r"|\bprivate keys?\b)"
)
_WORD: Final = compile_lazily(r"[a-z0-9]+")
MAX_LISTED: Final = 1_000  # resources, and prompts, of a server
MAX_PAGES: Final = 20
MAX_PROMPT: Final = 100_000  # characters


class OfferedTool(Struct, frozen=True, kw_only=True):
    """A tool of a server under the `name` that the model calls it by."""

    name: str
    server: str
    definition: ToolDefinition

    @property
    def must_ask(self) -> bool:
        """True if the server requires the user's approval of every call."""
        return bool((self.definition.meta or {}).get("anthropic/requiresUserInteraction"))

    def describe(self, limit: int = MAX_DESCRIPTION) -> str:
        """Return the tool as text: its description and the schema of its arguments."""
        text = strip_escapes(self.definition.description or "").strip()
        text = text if len(text) <= limit else f"{text[:limit]} […]"
        schema = json.dumps(simplify_schema(self.definition.input_schema), ensure_ascii=False, separators=(",", ":"))
        return f"- {self.name}: {text}\n  arguments: {strip_escapes(schema)}"


class PromptDefinition(Struct, frozen=True, kw_only=True):
    """A prompt of a server, with its arguments in order."""

    name: str
    description: str = ""
    arguments: tuple[str, ...] = ()
    required: tuple[str, ...] = ()

    @property
    def hint(self) -> str:
        """The arguments as the user types them after the prompt's name."""
        return " ".join(
            f"<{argument}>" if argument in self.required else f"[{argument}]" for argument in self.arguments
        )


class ServerTexts(Struct, frozen=True, kw_only=True):
    """The resources and prompts of a server. `resources`: URIs with titles; `has_templates`: further URIs exist."""

    resources: tuple[tuple[str, str], ...] = ()
    has_templates: bool = False
    prompts: tuple[PromptDefinition, ...] = ()


class CachedLists(Struct, frozen=True):
    """The lists of a server as of its last start."""

    version: str
    tools: tuple[ToolDefinition, ...]
    texts: ServerTexts = ServerTexts()


def name_tools(
    server: str, definitions: Iterable[ToolDefinition], taken_names: Collection[str] = ()
) -> dict[str, OfferedTool]:
    """Return tools by the name that the model calls them by, `mcp__<server>__<tool>`, with a number if that is in
    `taken_names`. No built-in tool has such a name."""
    offered_tools: dict[str, OfferedTool] = {}
    for definition in definitions:
        base = format_tool_name(server, definition.name)
        name, number = base, 2
        while name in offered_tools or name in taken_names:
            name, number = f"{base}_{number}", number + 1
        offered_tools[name] = OfferedTool(name=name, server=server, definition=definition)
    return offered_tools


def format_tool_name(server: str, tool: str) -> str:
    """Return the name that a tool is called by; with an empty `tool`, the prefix of all names of a server."""
    return f"mcp__{_OTHER.sub('_', server)}__{_OTHER.sub('_', tool)}"


def format_offer(tools: Sequence[OfferedTool], notes: Sequence[str], limit: int) -> str:
    """Format the tools and notes for the model. Above `limit` tokens the offer only counts the tools of every
    server."""
    if not tools:
        return "\n".join(notes)
    text = "\n".join([CALL_HINT, *(tool.describe() for tool in tools), *notes])
    if len(text) // 4 <= limit:
        return text
    counts = Counter(tool.server for tool in tools)
    rows = [f"- {name}: {count('tool', number)}" for name, number in sorted(counts.items())]
    return SEARCH_HINT.format("\n".join([*rows, *notes]))


def simplify_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without keys that are useless to a model."""
    return {key: value for key, value in schema.items() if key not in {"$schema", "title", "additionalProperties"}}


def compute_digests(definitions: Iterable[ToolDefinition]) -> dict[str, str]:
    """Return a digest of every definition by name, over all that the model sees."""
    return {
        definition.name: hashlib.sha256(msgspec.json.encode(definition, order="deterministic")).hexdigest()
        for definition in definitions
    }


def describe_tools(server: str, definitions: Iterable[ToolDefinition]) -> dict[str, str]:
    """Describe tools by their own names, as text for a comparison by the user."""
    return {tool.definition.name: tool.describe(MAX_SHOWN) for tool in name_tools(server, definitions).values()}


def find_flags(definition: ToolDefinition) -> tuple[str, ...]:
    """Return suspicious properties of a tool's description (length, urging words, credentials, hidden characters), each
    as part of a sentence for the user: a description can carry instructions for the model."""
    text = "\n".join((definition.name, definition.description or "", json.dumps(definition.input_schema)))
    description = definition.description or ""
    flags = ["it is longer than 2,000 characters"] if len(description) > MAX_DESCRIPTION else []
    flags += ["it urges"] if _INJECTION.search(text) else []
    flags += ["it mentions keys or where they are"] if _CREDENTIAL_PATHS.search(text) else []
    has_hidden = any(
        unicodedata.category(character) in {"Cc", "Cf", "Co"} and character not in "\n\r\t" for character in description
    )
    return (*flags, *(["it has invisible characters"] if has_hidden else []))


def describe_suspicious_tools(server: str, definitions: Iterable[ToolDefinition]) -> str:
    """Return a notice about tools with suspicious descriptions; "" = none."""
    odd = [definition.name for definition in definitions if find_flags(definition)]
    return (
        f"Check what the MCP server {server} says about {', '.join(odd[:MAX_NAMED])}: /mcp, then l on a tool."
        if odd
        else ""
    )


def describe_changes(server: str, changed_names: Sequence[str], held_names: Sequence[str]) -> str:
    """Return a notice about tools whose descriptions changed; "" = none."""
    if not changed_names:
        return ""
    names = ", ".join(changed_names[:MAX_NAMED]) + (" …" if len(changed_names) > MAX_NAMED else "")
    hold_notice = " The changed ones are off until you check them: /mcp." if held_names else ""
    return f"The MCP server {server} has changed the description of tools: {names}.{hold_notice}"


def find_tools(query: str, tools: Sequence[OfferedTool]) -> list[OfferedTool]:
    """Find the tools that a query names or whose description shares words with it, best first."""
    query_words = set(_WORD.findall(query.lower()))
    scored_tools = []
    for tool in tools:
        if tool.name == query.strip():
            return [tool]
        names = set(_WORD.findall(tool.name.lower())) - {"mcp"}
        words = set(_WORD.findall((tool.definition.description or "").lower()))
        score = 3 * len(query_words & names) + len(query_words & words)
        if score:
            scored_tools.append((score, tool))
    return [tool for _, tool in sorted(scored_tools, key=lambda pair: (-pair[0], pair[1].name))][:MAX_MATCHES]


def load_list(digest: str) -> CachedLists | None:
    """Load the cached lists of a server; None: there are none."""
    try:
        return decode_json(_name_file(digest).read_bytes(), CachedLists)
    except (OSError, msgspec.MsgspecError):
        return None


def save_list(digest: str, server_lists: CachedLists) -> None:
    """Cache the lists of a server; on a failure they are listed again next time."""
    path = _name_file(digest)
    with suppress(OSError):
        make_private_directory(path.parent)
        replace_file(path, msgspec.json.encode(server_lists))


def _name_file(digest: str) -> Path:
    return get_cache_dir() / "mcp" / f"{digest}.json"


class _ResourcePage(Struct, rename="camel"):
    resources: list[Any] = []
    next_cursor: str | None = None


class _Contents(Struct, frozen=True):
    contents: list[dict[str, Any]] = []


class _PromptMessage(Struct, frozen=True):
    role: str
    content: ContentBlock


class _PromptAnswer(Struct, frozen=True):
    messages: list[_PromptMessage] = []


async def list_texts(connection: SdkConnection) -> ServerTexts:
    """List the resources and prompts of a server; a list that fails counts as empty."""
    resources = await _list_pages(connection, "resources", "list_resources")
    templates = await _list_pages(connection, "resources", "list_resource_templates", "resourceTemplates")
    prompts = await _list_pages(connection, "prompts", "list_prompts")
    return ServerTexts(
        resources=tuple({str(resource.get("uri")): _name(resource) for resource in resources}.items()),
        has_templates=bool(templates),
        prompts=tuple(_read_prompt(prompt) for prompt in prompts),
    )


def _name(entry: Mapping[str, Any]) -> str:
    return " ".join(expose_controls(str(entry.get("title") or entry.get("name") or "")).split())[:200]


def _read_prompt(prompt: Mapping[str, Any]) -> PromptDefinition:
    arguments = [argument for argument in prompt.get("arguments") or () if isinstance(argument, dict)]
    return PromptDefinition(
        name=str(prompt.get("name", "")),
        description=" ".join(expose_controls(str(prompt.get("description") or _name(prompt))).split())[:500],
        arguments=tuple(str(argument.get("name", "")) for argument in arguments),
        required=tuple(str(argument.get("name", "")) for argument in arguments if argument.get("required")),
    )


async def _list_pages(connection: SdkConnection, feature: str, method: str, key: str = "") -> list[dict[str, Any]]:
    if not connection.has_feature(feature):
        return []
    entries: list[dict[str, Any]] = []
    cursor = None
    try:
        for _ in range(MAX_PAGES):
            page = await connection.request(method, dict, cursor=cursor)
            entries += [entry for entry in page.get(key or feature) or () if isinstance(entry, dict)]
            cursor = page.get("nextCursor")
            if not cursor or len(entries) >= MAX_LISTED:
                break
    except ToolFailed:
        return entries
    return entries[:MAX_LISTED]


async def read_resource(connection: SdkConnection, uri: str) -> CallAnswer:
    """Read a resource as an answer with one part per content. Raises `ToolFailed`."""
    answer = await connection.request("read_resource", _Contents, uri=uri)
    return CallAnswer(content=[_to_block(content) for content in answer.contents])


def _to_block(contents: Mapping[str, Any]) -> ContentBlock:
    kind, blob = str(contents.get("mimeType") or ""), contents.get("blob")
    if isinstance(blob, str):
        return ContentBlock(type="image" if kind.startswith("image/") else "blob", data=blob, mime_type=kind or None)
    return ContentBlock(text=str(contents.get("text") or ""))


async def get_prompt(connection: SdkConnection, name: str, arguments: Mapping[str, str]) -> str:
    """Return the text of a prompt; several messages start with their roles. Raises `ToolFailed`."""
    answer = await connection.request("get_prompt", _PromptAnswer, name=name, arguments=dict(arguments))
    parts = [(message.role, _get_text(message.content)) for message in answer.messages]
    lines = [text for _, text in parts] if len(parts) == 1 else [f"{role}: {text}" for role, text in parts]
    return expose_controls("\n\n".join(lines))[:MAX_PROMPT]


def _get_text(block: ContentBlock) -> str:
    resource_text = block.resource.get("text") if block.type == "resource" else None
    return block.text or (
        resource_text if isinstance(resource_text, str) else f"[{block.type}: it can't be shown here]"
    )


def assign_arguments(prompt: PromptDefinition, text: str) -> dict[str, str]:
    """Assign the words after a prompt's name to its arguments; the last argument takes all remaining words. Quotes
    group words. Raises `ToolFailed` for a missing or superfluous argument."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    last = len(prompt.arguments) - 1
    if words and last < 0:
        raise ToolFailed(f"{prompt.name} takes no arguments.")
    values = [*words[:last], " ".join(words[last:])] if len(words) > last >= 0 else words
    arguments = dict(zip(prompt.arguments, values, strict=False))
    if missing := [name for name in prompt.required if not arguments.get(name)]:
        raise ToolFailed(f"{prompt.name} needs {', '.join(missing)}.", hint=f"Its arguments: {prompt.hint}.")
    return arguments
