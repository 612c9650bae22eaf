"""What every request begins with, in tokens: system prompt and tool list, by the way a model is spoken with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from benchmarks.table import Result
from core.agent.context.prefix import Prefix
from core.agent.turn.prompt_setup import build_native_prefix, render_tags_prompt
from core.edit_formats import EditFormat
from core.tools.toolset import Toolset
from tests.support.tokens import list_tokens, tokens


def measure(*, quick: bool) -> Iterator[Result]:
    """Counted, not timed, so `quick` changes nothing."""
    tools = Toolset()
    for short, limit, in_tags in ((False, 7_000, 4_500), (True, 2_500, 2_500)):
        window = ", window below 16k" if short else ""
        most = max(
            (build_native_prefix(Toolset(), (), edits, short=short) for edits in get_args(EditFormat)), key=_whole
        )
        yield _tokens(f"system prompt{window}", tokens(most.system))
        yield _tokens(f"tool list{window}", list_tokens(most.tools))
        yield _tokens(f"system prompt and tools{window}", _whole(most), limit)
        yield _tokens(
            f"system prompt of the tags dialect{window}",
            tokens(render_tags_prompt(tools, (), short=short)),
            in_tags,
        )


def _whole(prefix: Prefix) -> int:
    return tokens(prefix.system) + list_tokens(prefix.tools)


def _tokens(label: str, value: int, limit: int | None = None) -> Result:
    return Result(what=label, value=value, unit="tokens", limit=limit)
