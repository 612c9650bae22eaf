"""Edits through the whole engine, with both SDKs and a real model server: every format, its refusals, its review."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from core.engine import Engine
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.review import Change
from tests.integration.test_engine_provider import assert_valid, opened, serving
from tests.support.configured import configured
from tests.support.open_session import engine_in, run_turn, set_keys
from tests.support.provider_server import ProviderServer
from tests.support.provider_streams import Call, Step
from tests.support.story import TWICE, project_at

FILE = "shop.py"
BEFORE = """\
def total(items):
    price = 0
    for item in items:
        price += item.price
    return price


def report(items):
    price = 0
    return f"{len(items)} for {price}"
"""
AFTER = BEFORE.replace("    price = 0\n    return f", "    price = total(items)\n    return f")
ADDED = "*** Begin Patch\n*** Add File: new.txt\n+one\n+two\n*** End Patch"
OLD = '    price = 0\n    return f"{len(items)}'
NEW = '    price = total(items)\n    return f"{len(items)}'
PATCH = """\
*** Begin Patch
*** Update File: shop.py
@@ def report(items):
-    price = 0
+    price = total(items)
*** End Patch"""
UNIFIED = """\
--- a/shop.py
+++ b/shop.py
@@ -1,3 +1,3 @@
 def report(items):
-    price = 0
+    price = total(items)
     return f"{len(items)} for {price}"
"""
BLOCK = f'------- SEARCH\n{OLD} for {{price}}"\n=======\n{NEW} for {{price}}"\n+++++++ REPLACE\n'
LAZY = """\
# ... existing code ...
def report(items):
    price = total(items)
    return f"{len(items)} for {price}"
"""
# What a model is offered when it is configured, and a call of it; "" = another name under which it is understood, too.
FORMATS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "search_replace": ("search_replace", "search_replace", {"old_string": OLD, "new_string": NEW, "file_path": FILE}),
    "str_replace": ("str_replace", "str_replace", {"old_string": OLD, "new_string": NEW, "path": FILE}),
    "multi_edit": (
        "multi_edit", "multi_edit", {"file_path": FILE, "edits": [{"old_string": OLD, "new_string": NEW}]},
    ),
    "patch": ("patch", "apply_patch", {"input": PATCH}),
    "unified": ("patch", "apply_patch", {"patch": UNIFIED}),
    "lazy": ("lazy", "edit_file", {"target_file": FILE, "instructions": "Use total.", "code_edit": LAZY}),
    "blocks": ("blocks", "editTool", {"filePath": FILE, "diffContent": BLOCK}),
    "draft": ("", "file_edit", {"path": FILE, "draft": "    price = total(items)\n", "start": 9, "end": 9}),
    "write": ("", "write", {"file_path": FILE, "contents": AFTER}),
}  # fmt: skip
OFFERED = {"patch": "apply_patch", "lazy": "edit_file", "blocks": "editTool"}
READ = Step(calls=[Call(name="read_file", arguments={"target_file": FILE})])
both_sdks = pytest.mark.parametrize("sdk", ["openai", "anthropic"])


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    set_keys(monkeypatch)
    project = project_at(tmp_path / "project")
    (project / FILE).write_text(BEFORE)
    return project


@dataclass
class Desk:
    engine: Engine
    session: str
    server: ProviderServer

    async def turn(self) -> list[ev.AnyEvent]:
        return await run_turn(self.engine, self.session)

    async def diff(self, path: str = FILE) -> list[str]:
        """The lines of the review that change, with their signs and numbers."""
        answer = await self.engine.query(q.DiffQuery(session=self.session, path=path))
        assert isinstance(answer, q.DiffAnswer)
        assert answer.diff is not None
        rows = [line for line in answer.diff.lines if line.kind in {"added", "removed"}]
        return [f"{'+' if line.new else '-'}{line.new or line.old}{line.text}" for line in rows]

    def results(self) -> list[str]:
        """The results of the calls, as the model was sent them last."""
        contents: list[str] = []
        for message in self.server.answered[-1].json["messages"]:
            if message["role"] == "tool":
                contents.append(str(message["content"]))
            elif isinstance(message["content"], list):
                blocks = [block for block in message["content"] if block["type"] == "tool_result"]
                contents += [json.dumps(block["content"], ensure_ascii=False) for block in blocks]
        return contents

    def offered(self) -> list[str]:
        tools = self.server.answered[0].json["tools"]
        return [tool["function"]["name"] if "function" in tool else tool["name"] for tool in tools]


@contextlib.asynccontextmanager
async def desk(project: Path, monkeypatch: pytest.MonkeyPatch, sdk: str, *steps: Step | str) -> AsyncIterator[Desk]:
    async with serving(monkeypatch, *steps) as server, engine_in(project) as engine:
        yield Desk(engine, await opened(engine, f"{sdk}/tiny-1"), server)
        for request in server.answered:
            assert_valid(request)


@both_sdks
@pytest.mark.parametrize("form", list(FORMATS))
async def test_every_format_edits_a_file_and_the_review_shows_exactly_its_lines(project, monkeypatch, sdk, form):
    edits, name, arguments = FORMATS[form]
    configured(f'[models."{sdk}/tiny-1"]\nedits = "{edits}"\n')
    steps = [READ, Step(calls=[Call(name=name, arguments=arguments)]), "Done."]
    async with desk(project, monkeypatch, sdk, *steps) as it:
        await it.turn()
        result = it.results()[-1]
        assert await it.diff() == ["-9    price = 0", "+9    price = total(items)"], result
        assert (project / FILE).read_text() == BEFORE
        assert "9|    price = total(items)" in result or form == "write"
        assert OFFERED.get(edits, edits) in it.offered() or not edits
        assert len({"search_replace", "str_replace", "multi_edit", *OFFERED.values()}.intersection(it.offered())) == 1


@both_sdks
async def test_an_ambiguous_edit_comes_back_with_candidates_and_succeeds_at_the_second_try(project, monkeypatch, sdk):
    first = {"file_path": FILE, "old_string": "    price = 0\n", "new_string": "    price = total(items)\n"}
    second = {"file_path": FILE, "old_string": OLD, "new_string": NEW}
    steps = [Step(calls=[Call(name="search_replace", arguments=arguments)]) for arguments in (first, second)]
    async with desk(project, monkeypatch, sdk, *steps, "Done.") as it:
        seen = await it.turn()
        refused, done = it.results()
        assert all(place in refused for place in ("2|    price = 0", "9|    price = 0", "8|def report"))
        assert "1 place replaced" in done
        assert [event.status for event in seen if isinstance(event, ev.ToolFinished)] == ["failed", "completed"]
        assert await it.diff() == ["-9    price = 0", "+9    price = total(items)"]


UNDECIDED = """\
# ... existing code ...
    def price(self):
        amount = 1
        return amount * 2
# ... existing code ...
"""
PLAN = "Lines 1 and 5.\n```json\n{}\n```"


def planned(*entries: tuple[int, int, str]) -> str:
    return PLAN.format(json.dumps([{"start_line": a, "end_line": b, "replacement": text} for a, b, text in entries]))


@both_sdks
async def test_what_rules_can_not_decide_is_worked_out_by_the_apply_model_and_a_bad_plan_is_not_taken(
    project, monkeypatch, sdk
):
    (project / FILE).write_text(TWICE)
    configured(f'apply_model = "{sdk}/fitter"\n')
    arguments = {"target_file": FILE, "instructions": "Only in Gross.", "code_edit": UNDECIDED}
    bad, good = planned((1, 1, "import os")), planned((10, 10, "        return amount * 2"))
    steps = [Step(calls=[Call(name="edit_file", arguments=arguments)]), bad, good, "Done."]
    async with desk(project, monkeypatch, sdk, *steps) as it:
        await it.turn()
        assert [request.json["model"] for request in it.server.answered] == ["tiny-1", "fitter", "fitter", "tiny-1"]
        asked, again = (json.dumps(request.json["messages"]) for request in it.server.answered[1:3])
        assert "Only in Gross." in asked
        assert "more than one place" in asked
        assert "This plan was not applied: The line 'import os' is neither in the file" in again
        assert "so a model placed it" in it.results()[-1]
        assert await it.diff() == ["-10        return amount", "+10        return amount * 2"]


@both_sdks
@pytest.mark.parametrize(
    "plan",
    [
        planned((1, 3, "x"), (2, 4, "y")),
        planned((4, 2, "x")),
        planned((90, 95, "x")),
        planned((4, 4, "")),
        "No.",
        planned((10, 10, "        # ... existing code ...")),
    ],
    ids=["overlap", "inverted", "out of range", "elsewhere", "no plan", "marker"],
)
async def test_an_edit_that_the_apply_model_can_not_place_either_is_refused(project, monkeypatch, sdk, plan):
    (project / FILE).write_text(TWICE)
    draft = UNDECIDED.replace("amount = 1", "nothing = here").replace("price", "neither")
    steps = [
        Step(calls=[Call(name="edit_file", arguments={"target_file": FILE, "code_edit": draft})]),
        plan,
        plan,
        "Well.",
    ]
    async with desk(project, monkeypatch, sdk, *steps) as it:
        seen = await it.turn()
        assert [event.status for event in seen if isinstance(event, ev.ToolFinished)] == ["failed"]
        assert "a model could not place it either" in it.results()[-1]
        assert it.engine.state(it.session).changes == {}


@both_sdks
async def test_a_change_that_breaks_a_file_is_flagged_to_the_model_and_in_the_review_until_it_is_mended(
    project, monkeypatch, sdk
):
    breaks = {"file_path": FILE, "old_string": "def report(items):", "new_string": "def report(items:"}
    mends = {"file_path": FILE, "old_string": "def report(items:", "new_string": "def report(items, rate):"}
    steps = [Step(calls=[Call(name="search_replace", arguments=arguments)]) for arguments in (breaks, mends)]
    async with desk(project, monkeypatch, sdk, steps[0], "Broken.", steps[1], "Mended.") as it:
        await it.turn()
        assert "This edit broke the syntax of the file: it parsed before." in it.results()[-1]
        flagged = await revised(it, lambda change: bool(change.broken))
        assert flagged.broken.startswith("line 8: ")
        await it.turn()
        assert "syntax" not in it.results()[-1]
        assert it.engine.state(it.session).changes[FILE].broken == ""


async def revised(it: Desk, fits: Callable[[Change], bool]) -> Change:
    """The first state of the change that fits."""
    async with contextlib.aclosing(it.engine.events(it.session)) as stream:
        async for envelope in stream:
            if isinstance(envelope.event, ev.ChangeRevised) and fits(envelope.event.change):
                return envelope.event.change
    raise AssertionError("the session ended")


async def test_drafts_blocks_and_calls_for_several_files_stand_in_one_answer_of_text(project, monkeypatch):
    configured('[models."openai/tiny-1"]\ndialect = "tags"\n')
    texts = [
        '<file_edit path="shop.py" start=9 end=9>\n    price = total(items)\n</file_edit>',
        '<file-edit filePath="a.txt">\n------- SEARCH\ntwo\n=======\nTWO\n+++++++ REPLACE\n</file-edit>',
        f"<tool_call>{json.dumps({'name': 'apply_patch', 'arguments': {'input': ADDED}})}</tool_call>",
    ]
    async with desk(project, monkeypatch, "openai", "\n".join(["All at once.", *texts]), "Done.") as it:
        await it.turn()
        assert await it.diff() == ["-9    price = 0", "+9    price = total(items)"]
        assert await it.diff("a.txt") == ["-2two", "+2TWO"]
        assert await it.diff("new.txt") == ["+1one", "+2two"]


async def test_an_apply_model_that_can_not_be_used_is_done_without_and_said(project, monkeypatch):
    (project / FILE).write_text(TWICE)
    configured('apply_model = "nobody/fitter"\n')
    call = Call(name="edit_file", arguments={"target_file": FILE, "code_edit": UNDECIDED})
    good = planned((10, 10, "        return amount * 2"))
    async with desk(project, monkeypatch, "openai", Step(calls=[call]), good, "Done.") as it:
        seen = await it.turn()
        messages = [notice.message for notice in seen if isinstance(notice, ev.Notice)]
        assert any(message.startswith("The apply model nobody/fitter can't be used: ") for message in messages)
        assert [request.json["model"] for request in it.server.answered] == ["tiny-1"] * 3
        assert await it.diff() == ["-10        return amount", "+10        return amount * 2"]
