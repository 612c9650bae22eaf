"""A request of the chat API, and the checked prompt that is made of it.

The content of a message is plain text, or parts of text and pictures in the names of OpenAI's API. A picture is sent in
the message as a `data:` URL: the server fetches nothing for a client.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field, structs

from core.attachments.pictures import READABLE_TYPES
from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol.events import ModeName
from core.protocol.tools import ToolScope, ToolSettings
from core.records import convert
from core.text.lines import clip

MAX_PICTURES: Final = 100  # in a request, the limit of providers
PICTURE_REFUSED: Final = "picture_refused"
_MAX_EXCERPT: Final = 60  # characters of a URL in an error message
_ALIASES: Final = {"image/jpg": "image/jpeg"}
_EXAMPLE: Final = "Send it as data:image/png;base64,…"
MAX_MESSAGES: Final = 1_000
_CONVERSATION: Final = r"^conv_[0-9a-z]{1,40}$"


class ApiRecord(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of what a client sends: a field that is not known is refused."""


class TextPart(ApiRecord, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """Text of a message; parts of it are lines of their own."""

    text: Annotated[str, Meta(description="Plain text, Markdown.")]


class ImageUrl(ApiRecord, frozen=True, kw_only=True):
    """The bytes of a picture, as a URL that holds them."""

    url: Annotated[str, Meta(description="`data:image/png;base64,…`; nothing is fetched.")]
    detail: Annotated[
        Literal["auto", "low", "high"],
        Meta(
            description="Accepted without effect: the size of a picture depends on the model (`agent-tui help prompt`)."
        ),
    ] = "auto"


class ImagePart(ApiRecord, frozen=True, kw_only=True, tag_field="type", tag="image_url"):
    """A picture in a message of the user's."""

    image_url: ImageUrl = field(name="image_url")


def decode_picture(url: str, name: str) -> bytes:
    """Return the bytes of a `data:` URL (RFC 2397). Slow for a large one: call it in a thread. `name`: the picture's
    name in an error. Raises `CommandRejected`."""
    head, comma, data = url.partition(",")
    scheme, colon, media_type = head.partition(":")
    if not comma or not colon or scheme.strip().lower() != "data":
        raise CommandRejected(
            f"{name} is {clip(url, _MAX_EXCERPT)!r}, and the server fetches nothing.",
            hint=_EXAMPLE,
            code=PICTURE_REFUSED,
        )
    kind, *parameters = (part.strip().lower() for part in media_type.split(";"))
    if _ALIASES.get(kind, kind) not in READABLE_TYPES:
        known_types = ", ".join(sorted(readable_type.removeprefix("image/") for readable_type in READABLE_TYPES))
        raise CommandRejected(
            f"{name} is of the type {kind[:_MAX_EXCERPT]!r}, which is not a readable picture.",
            hint=f"image/… of {known_types} can be sent.",
            code=PICTURE_REFUSED,
        )
    if "base64" not in parameters:
        raise CommandRejected(f"{name} does not say that it is base64.", hint=_EXAMPLE, code=PICTURE_REFUSED)
    try:
        picture = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise CommandRejected(f"{name}: its data is not base64.", hint=_EXAMPLE, code=PICTURE_REFUSED) from None
    if not picture:
        raise CommandRejected(f"{name} is empty.", hint=_EXAMPLE, code=PICTURE_REFUSED)
    return picture


class CalledFunction(ApiRecord, frozen=True, kw_only=True):
    """A function and its arguments, which are JSON as text."""

    name: str
    arguments: str = ""


class EarlierCall(ApiRecord, frozen=True, kw_only=True):
    """A call in an earlier answer."""

    id: str
    function: CalledFunction
    type: Literal["function"] = "function"


class ChatMessage(ApiRecord, frozen=True, kw_only=True):
    """One message of the conversation. Those of the system are rules; those of tools are results of earlier calls."""

    role: Literal["system", "user", "assistant", "tool"]
    content: Annotated[
        str | tuple[TextPart | ImagePart, ...] | None,
        Meta(description="Plain text, Markdown; or parts. Pictures are parts of messages of the user's."),
    ] = None
    tool_calls: Annotated[tuple[EarlierCall, ...], Meta(description="Of an answer: what it called.")] = field(
        name="tool_calls", default=()
    )
    tool_call_id: Annotated[str, Meta(description="Of a result: the id of the call.")] = field(
        name="tool_call_id", default=""
    )

    @property
    def text(self) -> str:
        """The text of the message, "" = it has only pictures."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content or () if isinstance(part, TextPart))

    @property
    def picture_urls(self) -> tuple[str, ...]:
        """The URLs of the pictures in the message."""
        parts = () if isinstance(self.content, str) else self.content or ()
        return tuple(part.image_url.url for part in parts if isinstance(part, ImagePart))


class ChatContext(ApiRecord, frozen=True, kw_only=True):
    """The place that a prompt is about."""

    workspace_path: Annotated[
        str, Meta(description="Absolute path of the project, in the directory that is served; that itself by default.")
    ] = ""
    open_files: Annotated[
        tuple[str, ...],
        Meta(
            description="Files that the user looks at, latest first; relative to the project. The model gets them, "
            "shortened."
        ),
    ] = ()
    edit_history: Annotated[
        tuple[str, ...],
        Meta(description="What the user edited lately, latest first: a diff or a sentence each, shortened."),
    ] = ()
    project_layout: Annotated[
        str,
        Meta(description="A tree of the files as the client shows them; the first one is told, shortened."),
    ] = ""
    rules: Annotated[tuple[str, ...], Meta(description="Rules that bind for this conversation from now on.")] = ()


class ToolAvailability(ApiRecord, frozen=True, kw_only=True):
    """Limits of a tool for one turn. They only narrow what the settings allow."""

    enabled: Annotated[bool, Meta(description="It may be called.")] = True
    scope: Annotated[ToolScope, Meta(description="`changed`: only files that wait for a verdict.")] = "workspace"
    allowed_paths: Annotated[
        tuple[Annotated[str, Meta(min_length=1)], ...],
        Meta(description="Directories, files and patterns that it is kept to; none: all of the project."),
    ] = ()
    require_approval: Annotated[bool, Meta(description="The user is asked about each call.")] = False


class PromptMessage(Struct, frozen=True):
    """A message of the user or the model, or the result of a call, with its pictures decoded."""

    role: Literal["user", "assistant", "tool"]
    text: str
    pictures: tuple[cmd.AttachmentAdd, ...] = ()


class ChatPrompt(Struct, frozen=True, kw_only=True):
    """A checked request. `message`: the prompt itself; `earlier`: the messages before it; `rules`: those of the context
    and the texts of the system; `tool_names`: the only tools that may be called, None = all; `tool_limits`: by name."""

    message: PromptMessage
    earlier: tuple[PromptMessage, ...]
    rules: tuple[str, ...]
    model: str
    mode: ModeName | None
    open_files: tuple[str, ...]
    edit_history: tuple[str, ...]
    layout: str
    tool_names: tuple[str, ...] | None
    tool_limits: dict[str, ToolSettings]
    wants_plan: bool = False


class ChatRequest(ApiRecord, frozen=True, kw_only=True):
    """A prompt, and all that goes with it. The last message is the user's prompt."""

    messages: Annotated[
        tuple[ChatMessage, ...],
        Meta(min_length=1, max_length=MAX_MESSAGES, description="The conversation; its last message is the prompt."),
    ]
    model: Annotated[str, Meta(description="`provider/name`; by default the configured one.")] = ""
    mode: Annotated[ModeName | None, Meta(description="By default `agent`, or that of the conversation.")] = None
    context: ChatContext = ChatContext()
    tools: Annotated[
        tuple[str, ...] | None, Meta(description="Names of the only tools that may be called; by default all.")
    ] = None
    available_tools: Annotated[dict[str, ToolAvailability], Meta(description="Limits of tools, by their names.")] = (
        field(default_factory=dict)
    )
    conversation_id: Annotated[
        Annotated[str, Meta(pattern=_CONVERSATION)] | None,
        Meta(description="The conversation to go on with; by default a new one."),
    ] = None
    stream: Annotated[bool, Meta(description="Answer with server-sent events.")] = False

    def build_prompt(self) -> ChatPrompt:
        """Return the prompt. Slow where there are pictures: call it in a thread. Raises `CommandRejected` for a request
        that no conversation can send."""
        if self.messages[-1].role != "user":
            hint = "Tools run here: a result is sent only as part of an earlier conversation."
            raise CommandRejected("the last message has to be the user's.", hint=hint, code="prompt_missing")
        check_open_files(self.context.open_files)
        *earlier, message = self._list_messages()
        system_texts = [system.text for system in self.messages if system.role == "system"]
        return ChatPrompt(
            message=message,
            earlier=tuple(earlier),
            rules=tuple(rule for rule in (*self.context.rules, *system_texts) if rule.strip()),
            model=self.model,
            mode=self.mode,
            open_files=self.context.open_files,
            edit_history=self.context.edit_history,
            layout=self.context.project_layout,
            tool_names=self.tools,
            tool_limits={
                name: convert(structs.asdict(limits), ToolSettings) for name, limits in self.available_tools.items()
            },
        )

    def _list_messages(self) -> list[PromptMessage]:
        """Return the messages of the user and the model. Raises `CommandRejected` for an invalid picture, and for too
        many."""
        messages: list[PromptMessage] = []
        count = 0
        names_by_call: dict[str, str] = {}
        for index, message in enumerate(self.messages):
            _check_parts(message, index)
            names_by_call |= {call.id: call.function.name for call in message.tool_calls}
            urls = message.picture_urls
            if urls and message.role != "user":
                raise CommandRejected(f"messages[{index}] has a picture; only the user's can.", code=PICTURE_REFUSED)
            if count + len(urls) > MAX_PICTURES:
                raise CommandRejected(f"there are more than {MAX_PICTURES} pictures.", code=PICTURE_REFUSED)
            names = [f"picture {number}" for number in range(count + 1, count + len(urls) + 1)]
            pictures = tuple(
                cmd.AttachmentAdd(data=decode_picture(url, name), name=name)
                for url, name in zip(urls, names, strict=True)
            )
            if message.role != "system":
                messages.append(PromptMessage(message.role, _describe_message(message, names_by_call), pictures))
            count += len(urls)
        return messages


def _check_parts(message: ChatMessage, index: int) -> None:
    """Raise `CommandRejected` for a message whose fields do not belong to its role."""
    if message.tool_calls and message.role != "assistant":
        raise CommandRejected(f"messages[{index}] has tool_calls; only an answer can.", code="message_invalid")
    if (message.role == "tool") != bool(message.tool_call_id):
        rule = "a result names its call (tool_call_id), and nothing else does"
        raise CommandRejected(f"messages[{index}]: {rule}.", code="message_invalid")
    if message.content is None and not message.tool_calls:
        raise CommandRejected(f"messages[{index}] has no content.", code="message_invalid")


def _describe_message(message: ChatMessage, names_by_call: Mapping[str, str]) -> str:
    """Return the text of a message, with the calls of an answer, or the call of a result, in words."""
    if message.role == "tool":
        return f"(result of {names_by_call.get(message.tool_call_id, message.tool_call_id)})\n{message.text}"
    calls = (f"(called {call.function.name} with {call.function.arguments or '{}'})" for call in message.tool_calls)
    return "\n".join(filter(None, (message.text, *calls)))


def check_open_files(paths: Sequence[str]) -> None:
    """Raise `CommandRejected` for a path outside of the project."""
    for path in paths:
        pure = PurePosixPath(path)
        if not path or pure.is_absolute() or ".." in pure.parts or "\0" in path:
            raise CommandRejected(
                f"openFiles has {path[:200]!r}, which is not a path in the project.", code="path_refused"
            )


def to_session_id(conversation: str) -> str:
    """Return the session id of a conversation."""
    return f"ses_{conversation.removeprefix('conv_')}"


def to_conversation_id(session: str) -> str:
    """Return the conversation id of a session."""
    return f"conv_{session.partition('_')[2]}"
