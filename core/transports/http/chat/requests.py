"""A request of the chat API, and its translation into commands.

The content of a message is plain text, or parts of text and pictures in the names of OpenAI's API. A picture is sent in
the message as a `data:` URL: the server fetches nothing for a client.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from core.attachments.pictures import READABLE_TYPES
from core.errors import CommandRejected
from core.protocol import commands as cmd
from core.protocol.documents import Question, QuestionAnswer
from core.protocol.events import ModeName, QuestionAsked
from core.protocol.tools import ToolRow, ToolScope, ToolSettings
from core.records import convert

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
        Meta(description="Accepted; a picture is sent in the size that docs/prompt.md tells of."),
    ] = "auto"


class ImagePart(ApiRecord, frozen=True, kw_only=True, tag_field="type", tag="image_url"):
    """A picture in a message of the user's."""

    image_url: ImageUrl = field(name="image_url")


def join_text(content: str | tuple[TextPart | ImagePart, ...]) -> str:
    """Return the text of a message's content."""
    if isinstance(content, str):
        return content
    return "\n".join(text_part.text for text_part in content if isinstance(text_part, TextPart))


def list_picture_urls(content: str | tuple[TextPart | ImagePart, ...]) -> tuple[str, ...]:
    """Return the URLs of the pictures in a message's content."""
    if isinstance(content, str):
        return ()
    return tuple(part.image_url.url for part in content if isinstance(part, ImagePart))


def decode_picture(url: str, name: str) -> bytes:
    """Return the bytes of a `data:` URL (RFC 2397). Slow for a large one: call it in a thread. `name`: the picture's
    name in an error. Raises `CommandRejected`."""
    head, comma, data = url.partition(",")
    scheme, colon, media_type = head.partition(":")
    if not comma or not colon or scheme.strip().lower() != "data":
        excerpt = f"{url[:_MAX_EXCERPT]}{'…' if len(url) > _MAX_EXCERPT else ''}"
        raise CommandRejected(
            f"{name} is {excerpt!r}, and the server fetches nothing.", hint=_EXAMPLE, code=PICTURE_REFUSED
        )
    kind, *parameters = (part.strip().lower() for part in media_type.split(";"))
    if _ALIASES.get(kind, kind) not in READABLE_TYPES:
        known_types = ", ".join(sorted(readable_type.removeprefix("image/") for readable_type in READABLE_TYPES))
        raise CommandRejected(
            f"{name} is of the type {kind[:_MAX_EXCERPT]!r}, which is no picture that can be read.",
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


class ChatMessage(ApiRecord, frozen=True, kw_only=True):
    """One message of the conversation. Those of the system are rules."""

    role: Literal["system", "user", "assistant"]
    content: Annotated[
        str | tuple[TextPart | ImagePart, ...],
        Meta(description="Plain text, Markdown; or parts. Pictures are parts of messages of the user's."),
    ]

    @property
    def text(self) -> str:
        """The text of the message, "" = it has only pictures."""
        return join_text(self.content)


class ChatContext(ApiRecord, frozen=True, kw_only=True):
    """The place that a prompt is about."""

    workspace_path: Annotated[
        str, Meta(description="Absolute path of the project, in the directory that is served; that itself by default.")
    ] = ""
    open_files: Annotated[
        tuple[str, ...], Meta(description="Files that the user looks at, latest first; relative to the project.")
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

    def find_prompt(self) -> str:
        """Return the user's text, "" = there are only pictures. Raises `CommandRejected` if the last message is not the
        user's."""
        last = self.messages[-1]
        if last.role != "user":
            raise CommandRejected("the last message has to be the user's.", code="prompt_missing")
        return last.text

    def list_rules(self) -> tuple[str, ...]:
        """Return the rules of the context and the texts of system messages."""
        system_texts = [message.text for message in self.messages if message.role == "system"]
        return tuple(rule for rule in (*self.context.rules, *system_texts) if rule.strip())

    def list_earlier(self, labels: Mapping[int, Sequence[str]]) -> tuple[cmd.EarlierMessage, ...]:
        """Return the messages before the prompt. `labels`: the labels of a message's pictures, by its index."""
        utterances = [
            (message.role, " ".join((*labels.get(index, ()), message.text)))
            for index, message in enumerate(self.messages[:-1])
            if message.role != "system"
        ]
        return tuple(
            cmd.EarlierMessage(role="user" if role == "user" else "assistant", text=text)
            for role, text in utterances
            if text.strip()
        )

    def decode_pictures(self) -> dict[int, tuple[cmd.AttachmentAdd, ...]]:
        """Return the pictures by the index of their message. Slow: call it in a thread. Raises `CommandRejected` for an
        invalid picture, and for too many."""
        pictures: dict[int, tuple[cmd.AttachmentAdd, ...]] = {}
        count = 0
        for index, message in enumerate(self.messages):
            urls = list_picture_urls(message.content)
            if urls and message.role != "user":
                raise CommandRejected(f"messages[{index}] has a picture; only the user's can.", code=PICTURE_REFUSED)
            if count + len(urls) > MAX_PICTURES:
                raise CommandRejected(f"there are more than {MAX_PICTURES} pictures.", code=PICTURE_REFUSED)
            names = [f"picture {number}" for number in range(count + 1, count + len(urls) + 1)]
            adds = tuple(
                cmd.AttachmentAdd(data=decode_picture(url, name), name=name)
                for url, name in zip(urls, names, strict=True)
            )
            pictures |= {index: adds} if adds else {}
            count += len(urls)
        return pictures


def check_open_files(paths: Sequence[str]) -> None:
    """Raise `CommandRejected` for a path outside of the project."""
    for path in paths:
        pure = PurePosixPath(path)
        if not path or pure.is_absolute() or ".." in pure.parts or "\0" in path:
            raise CommandRejected(
                f"openFiles has {path[:200]!r}, which is no path in the project.", code="path_refused"
            )


def build_tool_limits(request: ChatRequest, rows: Sequence[ToolRow]) -> dict[str, ToolSettings]:
    """Return the limits of tools in the turn. `rows`: the existing tools. Raises `CommandRejected`."""
    limits = {
        name: convert({key: getattr(availability, key) for key in availability.__struct_fields__}, ToolSettings)
        for name, availability in request.available_tools.items()
    }
    if request.tools is None:
        return limits
    names = {alias: row.name for row in rows for alias in (row.name, *row.aliases)}
    if unknown := [tool_name for tool_name in request.tools if tool_name not in names]:
        listing = ", ".join(sorted(row.name for row in rows))
        raise CommandRejected(
            f"there is no tool {unknown[0][:100]!r}.", hint=f"There are {listing}.", code="tool_unknown"
        )
    requested_names = {names[tool_name] for tool_name in request.tools}
    off = {row.name: ToolSettings(enabled=False) for row in rows if row.name not in requested_names and not row.server}
    return {**limits, **off}


def parse_answers(open_question: QuestionAsked, text: str) -> tuple[QuestionAnswer, ...]:
    """Parse answers to questions from a message: lines like `q1: jwt`, or the whole text for the first question."""
    lines = [line.partition(":") for line in text.splitlines() if ":" in line]
    values_by_id: Mapping[str, str] = {key.strip().casefold(): value.strip() for key, _, value in lines}
    answered_pairs = [
        (question, values_by_id[question.id.casefold()])
        for question in open_question.questions
        if values_by_id.get(question.id.casefold())
    ]
    pairs = answered_pairs or [(open_question.questions[0], text.strip())]
    return tuple(_build_answer(question, value) for question, value in pairs if value)


def _build_answer(question: Question, text: str) -> QuestionAnswer:
    """Return the options that a text names by id or label; any other text is a free answer."""
    option_ids = {word.casefold(): option.id for option in question.options for word in (option.label, option.id)}
    words = [part.strip().casefold() for part in ([text] if text.casefold() in option_ids else text.split(","))]
    choices = tuple(dict.fromkeys(option_ids[word] for word in words if word in option_ids))
    if len(choices) == len(words) and (len(choices) == 1 or question.allow_multiple):
        return QuestionAnswer(question=question.id, options=choices)
    return QuestionAnswer(question=question.id, text=text)


def to_session_id(conversation: str) -> str:
    """Return the session id of a conversation."""
    return f"ses_{conversation.removeprefix('conv_')}"


def to_conversation_id(session: str) -> str:
    """Return the conversation id of a session."""
    return f"conv_{session.partition('_')[2]}"
