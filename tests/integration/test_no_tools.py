"""Models and servers that refuse function calls: the same turn goes on with calls written into the text."""

from __future__ import annotations

import pytest

from core.protocol import commands as cmd
from core.protocol import events as ev
from core.protocol import queries as q
from core.protocol.documents import FileEditDocument
from core.user_dirs import get_config_dir
from tests.integration.test_engine_dialects import EDIT as EDIT_IN_TEXT
from tests.integration.test_engine_dialects import READ as READ_IN_TEXT
from tests.integration.test_engine_provider import (
    READ,
    assert_valid,
    opened,
    project,  # noqa: F401 (a fixture)
    serving,
)
from tests.support.history import faults
from tests.support.open_session import engine_in, run_turn, submit
from tests.support.provider_server import Request
from tests.support.provider_streams import Step

# What servers really answer (status, message).
REFUSALS = {
    "ollama": (400, "registry.ollama.ai/library/gemma3:4b does not support tools"),
    "openrouter": (404, "No endpoints found that support tool use. To learn more about provider routing, visit: x"),
    "llama.cpp": (500, "tools param requires --jinja flag"),
    "llama.cpp of 2024": (500, "Unsupported param: tools"),
    "vllm": (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
    "groq": (400, "`tools` is not supported with this model"),
}
LOOKS = f"I look.\n{READ_IN_TEXT}"
EDITS = f"I propose this.\n{EDIT_IN_TEXT}"


def refusing(name: str) -> Step:
    status, message = REFUSALS[name]
    return Step(status=status, error=message)


def asked(server) -> list[Request]:
    """The requests for an answer; a models endpoint may be asked besides."""
    return [request for request in server.requests if request.path.endswith("/chat/completions")]


def notices(events) -> list[str]:
    return [event.message for event in events if isinstance(event, ev.Notice)]


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_model_that_refuses_tools_is_carried_on_with_in_the_same_turn(project, monkeypatch, name):  # noqa: F811
    async with (
        serving(monkeypatch, refusing(name), LOOKS, EDITS, "So.", "Again.") as server,
        engine_in(project) as engine,
    ):
        session = await opened(engine, "openai/tiny-1")
        events = await run_turn(engine, session)
        assert events[-1].reason == "done"
        assert [text for text in notices(events) if "function calls" in text] == [
            "openai/tiny-1 supports no function calls, so it writes its calls as text (tags)."
        ]
        assert [event for event in events if isinstance(event, ev.ErrorRaised | ev.StepRetried)] == []
        documents = [event.document for event in events if isinstance(event, ev.DocumentFinished)]
        assert [document.metadata.status for document in documents if isinstance(document, FileEditDocument)] == [
            "success"
        ]
        assert "a.txt" in engine.state(session).changes
        again = await run_turn(engine, session, "And now?")
        assert notices(again) == []
        system, tools, *_ = (await engine.query(q.ContextQuery(session=session))).parts
        assert (system.name, system.detail, tools.detail) == ("system prompt", "tags", "0 tools")
        assert system.tokens > 1_000
        assert ["tools" in request.json for request in asked(server)] == [True, False, False, False, False]
        for request in asked(server):
            if "tools" not in request.json:
                assert "<execute_bash>" in request.raw.decode()
                assert_valid(request)


async def test_it_is_remembered_when_the_session_goes_on_later(project, monkeypatch):  # noqa: F811
    async with serving(monkeypatch, refusing("ollama"), "One.", "Two.") as server:
        async with engine_in(project) as engine:
            session = await opened(engine, "openai/tiny-1")
            await run_turn(engine, session)
        async with engine_in(project) as engine:
            await submit(engine, cmd.SessionResume(session=session))
            events = await run_turn(engine, session)
        assert notices(events) == []
        first, second = asked(server)[1:]
        assert ["tools" in request.json for request in asked(server)] == [True, False, False]
        assert second.json["messages"][: len(first.json["messages"])] == first.json["messages"]


async def test_a_small_window_is_told_where_the_context_is_shown(project, monkeypatch):  # noqa: F811
    get_config_dir().mkdir(parents=True, exist_ok=True)
    (get_config_dir() / "config.toml").write_text("[context]\nwindow = 8000\n")
    async with serving(monkeypatch, "So.") as server, engine_in(project) as engine:
        session = await opened(engine, "openai/tiny-1")
        await run_turn(engine, session)
        system, tools, *_ = (await engine.query(q.ContextQuery(session=session))).parts
        assert (system.detail, tools.detail) == ("short", "7 tools")
        assert len(asked(server)[0].json["tools"]) == 7
        assert len(asked(server)[0].raw) < 12_000


async def test_calls_of_before_are_told_as_text(project, monkeypatch):  # noqa: F811
    steps = (Step(text="I look.", calls=[READ]), "It has three lines.", refusing("vllm"), EDITS, "So.")
    async with serving(monkeypatch, *steps) as server, engine_in(project) as engine:
        session = await opened(engine, "openai/tiny-1")
        await run_turn(engine, session)
        events = await run_turn(engine, session, "Make it loud")
        assert events[-1].reason == "done"
        last = asked(server)[-1]
        assert "tool_calls" not in last.raw.decode()
        assert '"role":"tool"' not in last.raw.decode().replace(" ", "")
        assert "<tool_call>" in str(last.json["messages"])
        assert_valid(last)
        assert faults(engine.state(session).messages) == []


async def test_a_call_that_the_server_made_text_of_is_asked_for_again_in_tags(project, monkeypatch):  # noqa: F811
    async with serving(monkeypatch, LOOKS, LOOKS, EDITS, "So.") as server, engine_in(project) as engine:
        session = await opened(engine, "openai/tiny-1")
        events = await run_turn(engine, session)
        assert events[-1].reason == "done"
        assert len([text for text in notices(events) if "function calls" in text]) == 1
        assert ["tools" in request.json for request in asked(server)] == [True, False, False, False]
        assert "read_file" in str(asked(server)[1].json["messages"][-1])
        assert [event.tool for event in events if isinstance(event, ev.ToolFinished)] == ["read_file", "edit_blocks"]
        for request in asked(server):
            assert_valid(request)


async def test_a_model_that_makes_calls_is_told_of_one_in_its_text(project, monkeypatch):  # noqa: F811
    steps = (Step(text="I look.", calls=[READ]), LOOKS, "It has three lines.")
    async with serving(monkeypatch, *steps) as server, engine_in(project) as engine:
        session = await opened(engine, "openai/tiny-1")
        events = await run_turn(engine, session)
        assert (events[-1].reason, notices(events), len(asked(server))) == ("done", [], 3)
        assert [event.tool for event in events if isinstance(event, ev.ToolFinished)] == ["read_file"]
        assert "read_file" in str(asked(server)[2].json["messages"][-1])
        assert "tools" in asked(server)[2].json


async def test_another_refusal_is_no_reason_to_go_on_without_tools(project, monkeypatch):  # noqa: F811
    async with serving(monkeypatch, Step(status=400, error="temperature is not supported")) as server:
        async with engine_in(project) as engine:
            session = await opened(engine, "openai/tiny-1")
            events = await run_turn(engine, session)
        assert events[-1].reason == "failed"
        assert len(asked(server)) == 1


async def test_a_server_that_refuses_whatever_is_sent_is_asked_twice_at_most(project, monkeypatch):  # noqa: F811
    async with serving(monkeypatch, *[refusing("ollama")] * 5) as server, engine_in(project) as engine:
        session = await opened(engine, "openai/tiny-1")
        events = await run_turn(engine, session)
        assert events[-1].reason == "failed"
        assert len(asked(server)) == 2
