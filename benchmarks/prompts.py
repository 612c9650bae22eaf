"""What every request begins with, in tokens: system prompt and tool list, by the way a model is spoken with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from benchmarks.table import Result
from core.agent.prefix import system_prompt
from core.agent.speaking import tags_prompt
from core.config import EditFormat
from core.prompts import tool_text
from core.tools.registry import tool_specs
from tests.support.tokens import list_tokens, tokens

UNIT = "tokens"


def measure(*, quick: bool) -> Iterator[Result]:
    """Counted, not timed, so `quick` changes nothing."""
    system = tokens(system_prompt(()))
    lists = {edits: list_tokens(tool_specs(tool_text, edits)) for edits in get_args(EditFormat)}
    most = max(lists, key=lists.__getitem__)
    yield Result(what="system prompt", value=system, unit=UNIT)
    yield Result(what=f"tool list, edits as {most}", value=lists[most], unit=UNIT)
    yield Result(what="system prompt and tools together", value=system + lists[most], unit=UNIT, limit=7_000)
    yield Result(what="system prompt of the tags dialect", value=tokens(tags_prompt(())), unit=UNIT, limit=4_500)
