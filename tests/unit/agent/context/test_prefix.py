"""Models with a small window: short prompts, few tools, and the same ones for the whole session."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from core.agent.context.prefix import PromptVariants, copy_variants
from core.config.settings import ContextSettings, ModelSettings, Settings
from core.prompts import render
from core.protocol import events as ev
from core.tools.toolset import Toolset
from tests.support.agent_case import Case, calls, says

TOOLS = Toolset()


def windowed(window: int, **settings: object) -> Settings:
    return Settings(context=ContextSettings(window=window), **settings)


def as_after_a_restart(case: Case) -> None:
    case.session.memory.variants = PromptVariants(case.session.directory)
    case.session.memory.dialect_setups.clear()
    case.session.memory.setup = None


@pytest.mark.parametrize(
    ("window", "listed"),
    [
        (0, TOOLS.listed),
        (8_000, TOOLS.essential),
        (15_999, TOOLS.essential),
        (16_000, TOOLS.listed),
        (200_000, TOOLS.listed),
    ],
)
async def test_a_window_below_16k_has_the_short_prompt_and_few_tools(tmp_path, window, listed):
    case = Case(tmp_path, says("So."), settings=windowed(window))
    await case.turn()
    request = case.model.requests[0]
    assert [tool.name for tool in request.tools] == list(listed)
    assert request.system == render("system_short" if listed is TOOLS.essential else "system", rules=[])


@pytest.mark.parametrize("first", [8_000, 0, 200_000])
async def test_what_a_session_began_with_stays_whatever_is_known_of_the_window_later(tmp_path, first):
    case = Case(tmp_path, says("One."), says("Two."), says("Three."), settings=windowed(first))
    for window in (first, 200_000, 8_000):
        case.session.use_settings(windowed(window))
        await case.turn()
        as_after_a_restart(case)
    heads = [(request.system, request.tools) for request in case.model.requests]
    assert heads == heads[:1] * 3


async def test_another_model_of_the_session_has_what_its_own_window_asks_for(tmp_path):
    case = Case(tmp_path, says("One."), says("Two."), settings=windowed(8_000))
    await case.turn()
    case.session.use_settings(windowed(200_000))
    case.session.routes.current = type(case.session.routes.current)(provider=case.model, model="n", id="directed/n")
    await case.turn()
    assert [len(request.tools) for request in case.model.requests] == [len(TOOLS.essential), len(TOOLS.listed)]


async def test_a_tool_that_the_short_list_leaves_out_is_called_through_call_tool(tmp_path):
    inner = {"name": "glob_file_search", "arguments": json.dumps({"glob_pattern": "*.py"})}
    case = Case(tmp_path, calls(("call_tool", inner)), says("So."), settings=windowed(8_000))
    (case.project / "a.py").write_text("x = 1\n")
    await case.turn()
    assert [(event.tool, event.status) for event in case.of(ev.ToolFinished)] == [("glob_file_search", "completed")]
    assert "a.py" in case.results()[0]


async def test_called_wrongly_a_tool_answers_what_it_takes(tmp_path):
    case = Case(tmp_path, calls(("call_tool", {"name": "ask_question"})), says("So."), settings=windowed(8_000))
    await case.turn()
    for word in ("questions", "prompt", "options", "recommended"):
        assert word in case.results()[0]


async def test_tags_have_a_short_prompt_too(tmp_path):
    settings = windowed(8_000, models={"directed/m": ModelSettings(dialect="tags")})
    case = Case(tmp_path, says("So."), settings=settings)
    await case.turn()
    assert "<execute_bash>" in case.model.requests[0].system
    assert len(case.model.requests[0].system) < 9_000


def known(case: Case, *, tools: bool) -> None:
    route = case.session.routes.current
    case.session.routes.current = replace(route, capabilities=replace(route.capabilities, tools=tools))


@pytest.mark.parametrize(("dialect", "tools"), [("", False), ("native", True), ("tags", False)])
async def test_a_model_that_is_known_to_take_no_function_calls_is_not_sent_any(tmp_path, dialect, tools):
    case = Case(tmp_path, says("So."), settings=Settings(models={"directed/m": ModelSettings(dialect=dialect)}))
    known(case, tools=False)
    await case.turn()
    assert bool(case.model.requests[0].tools) is tools
    assert len(case.of(ev.Notice)) == (dialect == "")


@pytest.mark.parametrize("first", [True, False])
async def test_a_session_is_changed_by_calls_that_a_server_drops_and_not_by_those_that_it_takes_later(tmp_path, first):
    case = Case(tmp_path, says("One."), says("Two."))
    known(case, tools=first)
    await case.turn()
    known(case, tools=not first)
    as_after_a_restart(case)
    await case.turn()
    assert [bool(request.tools) for request in case.model.requests] == [first, False]


def test_a_subagent_begins_with_what_was_learned_before_it(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    learned = PromptVariants(one)
    learned.choose_variant("p/small", window=8_000, tools=True)
    learned.mark_toolless("p/m")
    copy_variants(one, two)
    child = PromptVariants(two)
    assert (child.is_short("p/small"), child.is_toolless("p/m"), child.is_toolless("p/small")) == (True, True, False)
    copy_variants(tmp_path / "nowhere", two)
    assert PromptVariants(two).is_toolless("p/m")
