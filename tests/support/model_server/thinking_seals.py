"""Signatures of thinking blocks that bind: to the block's own text, its model, and all that was before it.

As the docs on preserved thinking say: system, tools and every block before it are the prefix; marks for the cache and
deferred tools that nothing names are not. Thinking blocks are not part of it either, but each remembers the one before
it, so that they can be left out from the beginning of a conversation on, and not from its middle.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.model_server.prompt import THOUGHTS, Item, blocks_of, expanded, loaded_tools, text_of
from tests.support.model_server.refusal import Refusal

_KEY = b"the key of the test server"
_ALTERED = (
    "messages.{at}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
    "These blocks must remain as they were in the original response."
)
_INVALID = "messages.{at}: Invalid `signature` in `thinking` block"
_ELSEWHERE = (
    "messages.{at}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove "
    'the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block". That setting requires the '
    "`thinking-binding-controls-2026-08-01` value in the `anthropic-beta` header."
)


@dataclass(frozen=True)
class Thought:
    """A thinking block of a request: where it stands, what was before it, and the one before it ("" = none)."""

    message: int
    block: int
    content: Item
    prefix: str
    previous: str
    latest: bool


def seal(body: Mapping[str, Any], before: Sequence[Item], text: str) -> str:
    """The signature of a new block of the answer to `body`; `before`: the blocks of that answer until now."""
    blocks = blocks_of([*body["messages"], {"role": "assistant", "content": list(before)}])
    content = {"m": body["model"], "p": _prefix(body, blocks), "c": _previous(blocks), "t": _digest(text)}
    data = json.dumps(content).encode()
    return base64.b64encode(data + hashlib.sha256(_KEY + data).digest()[:9]).decode()


def broken_seals(body: Mapping[str, Any], *, bound: bool, unread: list[str]) -> Iterator[Refusal]:
    """What is wrong with the thinking that came back; `unread` gets the blocks of other models, which are dropped."""
    for thought in thoughts_of(body):
        at = f"{thought.message}.content.{thought.block}"
        signed = opened(thought.content.get("signature") or thought.content.get("data") or "")
        if signed is None:
            yield Refusal(message=_INVALID.format(at=at))
        elif signed["m"] != body["model"]:
            unread.append(at)
        elif thought.content["type"] == "thinking" and signed["t"] != _digest(thought.content["thinking"]):
            yield Refusal(message=(_ALTERED if thought.latest else _INVALID).format(at=at))
        elif bound and (signed["p"] != thought.prefix or thought.previous not in ("", signed["c"])):
            yield Refusal(message=_ELSEWHERE.format(at=at))


def thoughts_of(body: Mapping[str, Any]) -> Iterator[Thought]:
    done: list[tuple[str, Item]] = []
    latest = max((at for at, message in enumerate(body["messages"]) if message["role"] == "assistant"), default=-1)
    for at, message in enumerate(body["messages"]):
        for number, (role, block) in enumerate(blocks_of([message])):
            if block.get("type") in THOUGHTS:
                yield Thought(at, number, block, _prefix(body, done), _previous(done), at == latest)
            done.append((role, block))


def opened(signature: str) -> dict[str, str] | None:
    """What was signed; None: it is no signature of this server."""
    try:
        data = base64.b64decode(signature, validate=True)
        if hashlib.sha256(_KEY + data[:-9]).digest()[:9] != data[-9:]:
            return None
        content: dict[str, str] = json.loads(data[:-9])
    except ValueError:
        return None
    return content


def _prefix(body: Mapping[str, Any], blocks: Sequence[tuple[str, Item]]) -> str:
    plain_blocks = [(role, expanded(body, block)) for role, block in blocks if block.get("type") not in THOUGHTS]
    return _digest(text_of([loaded_tools(body), body.get("system", ""), plain_blocks]))


def _previous(blocks: Sequence[tuple[str, Item]]) -> str:
    thoughts = [block for _, block in blocks if block.get("type") in THOUGHTS]
    return _digest(thoughts[-1].get("signature") or thoughts[-1].get("data") or "") if thoughts else ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:20]
