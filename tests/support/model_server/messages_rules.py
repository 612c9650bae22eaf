"""What the messages API refuses, in its words."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, get_args

from tests.support.model_server.catalog import Claude, claude_of
from tests.support.model_server.prompt import Item, blocks_of
from tests.support.model_server.refusal import Refusal
from tests.support.model_server.thinking_seals import broken_seals
from tests.support.model_server.typed_bodies import faults_of, open_objects

_UNKNOWN: Final = Claude(
    pattern="", thinking=("adaptive", "enabled", "disabled", "between_tools"), sampling=True, bound=True
)
_SAMPLING: Final = ("temperature", "top_p", "top_k")
_HEADS: Final = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif", b"RIFF": "image/webp"}
_MOST_OF_AN_IMAGE: Final = 5 * 1024 * 1024
_ORDER: Final = ("low", "medium", "high", "xhigh", "max")


def refused_messages(body: Mapping[str, Any], unread: list[str], betas: Sequence[str] = ()) -> Iterator[Refusal]:
    """`unread`: gets the thinking blocks that the model cannot read, which are dropped without an error. `betas`: what
    its header names, without which the fields of a beta are unknown."""
    from anthropic.types import message_create_params as stable
    from anthropic.types.beta import message_create_params as beta

    types = beta if betas else stable
    params = types.MessageCreateParamsStreaming if body.get("stream") else types.MessageCreateParamsNonStreaming
    untyped = {key: value for key, value in body.items() if key not in _SAMPLING}  # the SDK has left them out
    for place, _, message in faults_of(params, untyped):
        yield Refusal(message=f"{'.'.join(map(str, place))}: {message}")
        return
    yield from _betas(body, betas)
    claude = claude_of(body["model"]) or _UNKNOWN
    yield from _options(body, claude)
    yield from _thinking(body, claude)
    yield from _form(body)
    yield from _tools(body)
    yield from _content(body)
    yield from _calls(body["messages"])
    yield from broken_seals(body, bound=claude.bound, unread=unread)


def _betas(body: Mapping[str, Any], betas: Sequence[str]) -> Iterator[Refusal]:
    """As platform.claude.com describes fast mode, effort per message, compaction on demand and pre-warming."""
    from anthropic.types.anthropic_beta_param import AnthropicBetaParam

    known = {name for branch in get_args(AnthropicBetaParam) for name in get_args(branch)}
    for name in betas:
        if name not in known:
            yield from _refusals(f"Unexpected value(s) `{name}` for the `anthropic-beta` header.")
    changes = [message for message in body["messages"] if "output_config" in message]
    if changes and "mid-conversation-output-config-2026-07-01" not in betas:
        yield from _refusals("messages: output_config: Extra inputs are not permitted")
    if changes and not re.match(r"claude-(fable|mythos)-5-[12]|claude-(opus-5|sonnet-5-5|haiku-5-5)", body["model"]):
        yield from _refusals("messages: output_config is not supported on this model.")
    if "compaction" in body and ("compact-2026-09-04" not in betas or "context_management" in body):
        yield from _refusals("compaction: Extra inputs are not permitted")
    blocks = [block for _, block in blocks_of(body["messages"]) if block["type"] == "compaction"]
    if blocks and ("compact-2026-09-04" not in betas or body["messages"][0]["content"][:1] != blocks):
        yield from _refusals("messages: a `compaction` block must be the first block of `messages`")
    if body.get("speed") and not re.match(r"claude-(opus-5|opus-4-8|(fable|mythos)-5-2)", body["model"]):
        yield from _refusals(f"`speed` is not supported for {body['model']}.")
    needs_beta = re.match(r"claude-opus-(5$|4-8)", body["model"])
    if body.get("speed") and needs_beta and "fast-mode-2026-02-01" not in betas:
        yield from _refusals("speed: Extra inputs are not permitted")
    if body.get("max_tokens") == 0 and body.get("stream"):
        yield from _refusals("stream: must be false when max_tokens is 0")


def _refusals(*messages: str) -> Iterator[Refusal]:
    yield from (Refusal(message=message) for message in messages)


def _options(body: Mapping[str, Any], claude: Claude) -> Iterator[Refusal]:
    model, limit = body["model"], claude.max_tokens
    if body["max_tokens"] > limit:
        detail = f"which is the maximum allowed number of output tokens for {model}"
        yield from _refusals(f"max_tokens: {body['max_tokens']} > {limit}, {detail}")
    for name in _SAMPLING:
        if name in body and not claude.sampling:
            yield from _refusals(f"`{name}` is deprecated for this model.")
    effort = (body.get("output_config") or {}).get("effort")
    if effort and not claude.efforts:
        yield from _refusals("This model does not support the effort parameter.")
    elif effort and effort not in claude.efforts:
        supported = ", ".join(sorted(claude.efforts))
        yield from _refusals(f"This model does not support effort level '{effort}'. Supported levels: {supported}.")
    ends_in_answer = body["messages"] and body["messages"][-1]["role"] == "assistant"
    if ends_in_answer and not claude.prefill and "compaction" not in body:
        detail = "The conversation must end with a user message."
        yield from _refusals(f"This model does not support assistant message prefill. {detail}")


def _thinking(body: Mapping[str, Any], claude: Claude) -> Iterator[Refusal]:
    config = body.get("thinking") or {}
    kind = config.get("type", "")
    effort = (body.get("output_config") or {}).get("effort") or "medium"
    if kind and kind not in claude.thinking:
        other = "between_tools" if "between_tools" in claude.thinking else "adaptive"
        detail = f'Use "thinking.type.{other}" and "output_config.effort" to control thinking behavior.'
        yield from _refusals(f'"thinking.type.{kind}" is not supported for this model. {detail}')
    elif kind == "disabled" and claude.disabled_up_to and _ORDER.index(effort) > _ORDER.index(claude.disabled_up_to):
        yield from _refusals(f"\"thinking.type.disabled\" is not supported with effort '{effort}' for this model.")
    elif kind == "between_tools" and effort in ("xhigh", "max"):
        yield from _refusals(f"\"thinking.type.between_tools\" is not supported with effort '{effort}'.")
    on = kind in ("enabled", "adaptive") or not claude.forced_choice
    if on and (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        yield from _refusals("Thinking may not be enabled when tool_choice forces tool use.")
    if on and claude.sampling and body.get("temperature", 1) != 1:
        detail = "may only be set to 1 when thinking is enabled or in adaptive mode."
        yield from _refusals(f"`temperature` {detail}")
    if kind == "enabled":
        yield from _budget(body, config["budget_tokens"])


def _budget(body: Mapping[str, Any], budget: int) -> Iterator[Refusal]:
    if budget < 1024:
        yield from _refusals("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
    if body["max_tokens"] <= budget:
        yield from _refusals("`max_tokens` must be greater than `thinking.budget_tokens`.")
    answers = [(at, message) for at, message in enumerate(body["messages"]) if message["role"] == "assistant"]
    at, answer = answers[-1] if answers else (0, {"content": "", "role": ""})
    blocks = blocks_of([answer])
    in_use = blocks and any(block["type"] == "tool_use" for _, block in blocks)
    if in_use and blocks[0][1]["type"] not in ("thinking", "redacted_thinking"):
        kind = blocks[0][1]["type"]
        detail = "When `thinking` is enabled, a final `assistant` message must start with a thinking block."
        yield from _refusals(
            f"messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `{kind}`. {detail}"
        )


def _form(body: Mapping[str, Any]) -> Iterator[Refusal]:
    """As platform.claude.com describes structured outputs: objects are closed, numbers and texts without bounds."""
    schema = ((body.get("output_config") or {}).get("format") or {}).get("schema")
    if schema is None:
        return
    if open_objects(schema):
        detail = "For 'object' type, 'additionalProperties' must be explicitly set to false"
        yield from _refusals(f"output_config.format.schema: {detail}")
    if bounds := set(re.findall(r'"(minimum|maximum|minLength|maxLength|maxItems)":', json.dumps(schema))):
        yield from _refusals(f"output_config.format.schema: properties {', '.join(sorted(bounds))} are not supported")


def _tools(body: Mapping[str, Any]) -> Iterator[Refusal]:
    names = [tool.get("name", "") for tool in body.get("tools", ())]
    for place, name in enumerate(names):
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", name):
            detail = "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
            yield from _refusals(f"tools.{place}.custom.name: {detail}")
    if len(set(names)) < len(names):
        yield from _refusals("tools: Tool names must be unique.")
    yield from _deferred(body)
    for place, tool in enumerate(body.get("tools", ())):
        schema = tool.get("input_schema") or {}
        if schema.keys() & {"oneOf", "allOf", "anyOf"}:
            detail = "input_schema does not support oneOf, allOf, or anyOf at the top level"
            yield from _refusals(f"tools.{place}.custom.input_schema: {detail}")


def _deferred(body: Mapping[str, Any]) -> Iterator[Refusal]:
    """As platform.claude.com describes the search of tools."""
    tools = body.get("tools") or []
    deferred = {tool["name"]: tool for tool in tools if tool.get("defer_loading")}
    if tools and len(deferred) == len(tools):
        yield from _refusals("All tools have defer_loading set. At least one tool must be non-deferred.")
    if any("cache_control" in tool for tool in deferred.values()):
        yield from _refusals("tools: cache_control can't be set on a tool with defer_loading")
    if deferred and not re.match(r"claude-(fable|mythos|opus-[45]|sonnet-[45]|haiku-(4-5|5))", body["model"]):
        yield from _refusals("tools: defer_loading is not supported on this model.")
    for _, block in blocks_of(body["messages"]):
        content = block.get("content") if block["type"] == "tool_result" else None
        for part in content if isinstance(content, list) else ():
            if part["type"] == "tool_reference" and part["tool_name"] not in deferred:
                detail = f"Tool reference '{part['tool_name']}' has no corresponding tool definition"
                yield from _refusals(detail)


def _content(body: Mapping[str, Any]) -> Iterator[Refusal]:
    messages: list[Item] = body["messages"]
    if not messages:
        yield from _refusals("messages: at least one message is required")
    elif messages[0]["role"] != "user" and not any(
        isinstance(block, Mapping) and block["type"] == "compaction" for block in messages[0]["content"]
    ):
        yield from _refusals('messages: first message must use the "user" role')
    for place, message in enumerate(messages):
        if not message["content"] and place < len(messages) - 1 and "output_config" not in message:
            detail = "all messages must have non-empty content except for the optional final assistant message"
            yield from _refusals(f"messages.{place}: {detail}")
    system = body.get("system", "")
    blocks = [block for _, block in blocks_of(messages)] + (system if isinstance(system, list) else [])
    yield from _texts(blocks)
    yield from _images(blocks)
    ttls = [part["cache_control"].get("ttl", "5m") for part in [*(system or ()), *blocks] if "cache_control" in part]
    ttls += [body["cache_control"].get("ttl", "5m")] if body.get("cache_control") else []
    if "1h" in ttls[ttls.index("5m") :] if "5m" in ttls else False:
        yield from _refusals("a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block")
    marks = sum("cache_control" in part for part in [*blocks, *body.get("tools", ())])
    marks += bool(body.get("cache_control"))
    if marks > 4:
        yield from _refusals(f"A maximum of 4 blocks with cache_control may be provided. Found {marks}.")


def _texts(blocks: list[Item]) -> Iterator[Refusal]:
    for block in blocks:
        if block["type"] == "text" and not block["text"]:
            yield from _refusals("messages: text content blocks must be non-empty")
        elif block["type"] == "text" and not block["text"].strip():
            yield from _refusals("messages: text content blocks must contain non-whitespace text")


def _images(blocks: list[Item]) -> Iterator[Refusal]:
    inner = [child for block in blocks if isinstance(block.get("content"), list) for child in block["content"]]
    for block in [*blocks, *inner]:
        source = block.get("source") or {}
        if source.get("type") != "base64":
            continue
        try:
            data = base64.b64decode(source["data"], validate=True)
        except (binascii.Error, ValueError):
            yield from _refusals(f"messages: {block['type']}.source.base64.data: invalid base64 data")
            continue
        if block["type"] == "image":
            yield from _image(source["media_type"], data)
        elif not data.startswith(b"%PDF"):
            yield from _refusals("messages: The PDF specified was not valid.")


def _image(media: str, data: bytes) -> Iterator[Refusal]:
    kind = next((candidate for head, candidate in _HEADS.items() if data.startswith(head)), None)
    if kind is None:
        yield from _refusals("messages: Could not process image")
    elif kind != media:
        yield from _refusals(
            f"messages: The image was specified using the {media} media type, but the image appears to be a {kind}"
            " image"
        )
    if len(data) > _MOST_OF_AN_IMAGE:
        yield from _refusals(f"messages: image exceeds 5 MB maximum: {len(data)} bytes > {_MOST_OF_AN_IMAGE} bytes")


def _calls(messages: list[Item]) -> Iterator[Refusal]:
    seen: set[str] = set()
    open_calls: list[str] = []
    turns = _turns(messages)
    for place, (role, blocks) in enumerate(turns):
        if role == "user":
            yield from _results(place, blocks, open_calls)
            open_calls = []
            continue
        open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        for call in open_calls:
            if call in seen or not re.fullmatch(r"[a-zA-Z0-9_-]+", call):
                detail = "`tool_use` ids must be unique" if call in seen else "String should match '^[a-zA-Z0-9_-]+$'"
                yield from _refusals(f"messages.{place}: {detail}")
            seen.add(call)
        if open_calls and place == len(turns) - 1:
            yield from _results(place + 1, [], open_calls)


def _results(place: int, blocks: list[Item], open_calls: list[str]) -> Iterator[Refusal]:
    """Of the user message after the calls: the results of all of them are its first blocks."""
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    first = [block["tool_use_id"] for block in blocks[: len(open_calls)] if block["type"] == "tool_result"]
    missing = [call for call in open_calls if call not in first]
    if missing:
        yield from _refusals(
            f"messages.{place - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the next "
            "message."
        )
    for number, result in enumerate(results):
        if result not in open_calls:
            yield from _refusals(
                f"messages.{place}.content.{number}: unexpected `tool_use_id` found in `tool_result` blocks: {result}. "
                "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
    for result in {result_id for result_id in results if results.count(result_id) > 1}:
        detail = f"each tool_use must have a single result. Found multiple `tool_result` blocks with id: {result}"
        yield from _refusals(f"messages.{place}: {detail}")


def _turns(messages: list[Item]) -> list[tuple[str, list[Item]]]:
    """Consecutive messages of one role are one turn, as the API reads them."""
    turns: list[tuple[str, list[Item]]] = []
    for role, block in blocks_of([message for message in messages if message["role"] != "system"]):
        if not turns or turns[-1][0] != role:
            turns.append((role, []))
        turns[-1][1].append(block)
    return turns
