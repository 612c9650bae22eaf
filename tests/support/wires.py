"""The three wires as a user configures them for a test server, and what has to hold for the requests of a session."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Final

from tests.support.configured import configured
from tests.support.provider_server import ProviderServer, Request

KEY: Final = "sk-test-0123456789abcdef"
MODELS: Final = {"chat": "openai/deepseek-chat", "responses": "mine/gpt-6-sol", "messages": "anthropic/claude-opus-5-5"}
OTHER_MODELS: Final = {
    "chat": "openai/kimi-k3",
    "responses": "mine/gpt-6.2-sol",
    "messages": "anthropic/claude-fable-5-2",
}
NAMES: Final = tuple(name.partition("/")[2] for name in (*MODELS.values(), *OTHER_MODELS.values()))
_ARRAYS: Final = {
    "/v1/chat/completions": '"messages":[',
    "/v1/messages": '"messages":[',
    "/v1/responses": '"input":[',
}


def configure(monkeypatch, server: ProviderServer, more: str = "") -> None:
    """Keys and addresses of all three for the user of this test."""
    for name, url in (("OPENAI", server.openai_url), ("ANTHROPIC", server.anthropic_url)):
        monkeypatch.setenv(f"{name}_API_KEY", KEY)
        monkeypatch.setenv(f"{name}_BASE_URL", url)
    mine = f'[providers.mine]\nbase_url = "{server.openai_url}"\nwire = "responses"\napi_key_env = "OPENAI_API_KEY"\n'
    configured(f"{more}\n{mine}")


def grown(request: Request) -> bytes:
    """Head and array of a request, without the bracket that closes it: what the next request has to begin with."""
    text = request.raw.decode()
    mark = _ARRAYS[request.path.partition("?")[0]]
    start = text.index(mark) + len(mark) - 1
    _, end = json.JSONDecoder().raw_decode(text, start)
    return text[: end - 1].encode()


def breaks(requests: Sequence[Request]) -> list[int]:
    """The requests, by number, that do not begin with the bytes of the one before them."""
    bodies = [grown(request) for request in requests]
    pairs = itertools.pairwise(bodies)
    return [number for number, (before, now) in enumerate(pairs, 1) if not now.startswith(before) or now == before]


def difference(before: Request, now: Request) -> str:
    """Where two requests part, for the message of a test."""
    one, two = grown(before), grown(now)
    same = next((at for at, (left, right) in enumerate(zip(one, two, strict=False)) if left != right), len(two))
    start = max(0, same - 200)
    return f"at {same} of {len(one)}:\n{one[start : same + 200]!r}\n{two[start : same + 200]!r}"


def cached(server: ProviderServer) -> list[tuple[int, int]]:
    """Tokens of each answered prompt, and of it those that the server's cache had; as the server told the program."""
    assert server.rules is not None
    return [(count.get("prompt", 0), count.get("cached", 0)) for count in server.rules.counts]
