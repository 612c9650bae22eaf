"""Programs of the model: their calls go through the gate, and only what they print reaches the conversation."""

from __future__ import annotations

import asyncio

import pytest

from core.protocol import events as ev
from core.sandbox.box import Box, Tier
from core.sandbox.tiers.namespaces import NamespaceBox
from tests.support.agent_case import Case, calls, says
from tests.support.history import faults

FORTY = """
paths = glob_file_search("**/*.py")
texts = parallel([(read_file, path) for path in paths])
for path, text in sorted(zip(paths, texts)):
    if "wanted" in text:
        print(path, len(text))
"""


class Held:
    """The box of namespaces, as a session comes to it."""

    tier = Tier.NAMESPACES

    def __init__(self) -> None:
        self.box = NamespaceBox()

    async def find(self) -> Box | None:
        return self.box

    def describe(self) -> str:
        return "a box"


@pytest.fixture
async def held():
    holder = Held()
    yield holder
    await holder.box.close()


def program(code: str, **more):
    return calls(("call_tool", {"name": "run_code", "arguments": {"code": code, **more}}))


async def run(tmp_path, held, *steps, mode="agent", files=None, settings=None) -> Case:
    case = Case(tmp_path, *steps, says("."), mode=mode, box=held, settings=settings)
    for name, text in (files or {}).items():
        (case.project / name).parent.mkdir(parents=True, exist_ok=True)
        (case.project / name).write_text(text)
    await case.turn()
    await case.session.terminal.close()
    assert faults(case.messages) == []
    return case


async def test_forty_reads_cost_the_conversation_what_is_printed(tmp_path, held):
    files = {f"src/m{index:02}.py": f"x = {index}\n" * 50 + "wanted = 1\n" * (index == 7) for index in range(40)}
    case = await run(tmp_path, held, program(FORTY), files=files)
    print(case.results())
    print([type(e).__name__ for e in case.events][:30])
    assert case.results() == ["src/m07.py 311\n[41 calls: read_file 40, glob_file_search 1]"]
