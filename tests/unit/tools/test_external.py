from __future__ import annotations

import pytest

from core.protocol.messages import FoundTool
from core.tools.external import SearchTools

PLAIN = {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}


class Finder:
    def __init__(self, *schemas: dict) -> None:
        self.tools = tuple(
            FoundTool(name=f"mcp__x__{number}", description="d", parameters=schema)
            for number, schema in enumerate(schemas)
        )

    async def find_tools(self, _query: str) -> tuple[FoundTool, ...]:
        return self.tools


async def test_what_a_search_finds_can_be_loaded_by_an_api():
    finder = Finder(PLAIN, {"type": "object"})
    outcome = await SearchTools(query="x").run(finder)
    assert outcome.tools == finder.tools


@pytest.mark.parametrize("schema", [{"type": "object", "anyOf": [PLAIN]}, {"oneOf": [PLAIN]}, {}, {"type": "array"}])
async def test_a_tool_whose_schema_apis_refuse_is_told_in_words_alone(schema):
    outcome = await SearchTools(query="x").run(Finder(PLAIN, schema))
    assert outcome.tools == ()
    assert "mcp__x__1" in outcome.content
