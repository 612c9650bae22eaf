"""Which of OpenAI's two protocols a server is spoken to, and what of a conversation crosses from one to the other."""

from __future__ import annotations

import json

import pytest

from core.errors import ProviderError
from core.protocol.messages import ToolMessage, UserMessage
from tests.support import wires
from tests.support.model_server.step import Think
from tests.support.program import ask as run_and_ask
from tests.support.program import environment, run
from tests.support.provider_calls import GREP, ask, connect, request
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Call, Step

CALLING = Step(parts=[Think(text="Hm."), Call(name="grep", arguments={"pattern": "x"})])
WANTS_RESPONSES = (
    "Function tools with reasoning_effort are not supported for m in /v1/chat/completions. To use function tools, "
    "use /v1/responses or set reasoning_effort to 'none'."
)
NOT_CHAT = "This model is only supported in v1/responses and not in v1/chat/completions."


def paths(server):
    return [request.path.removeprefix("/v1/") for request in server.answered]


async def asked_of(provider, *texts, **fields):
    return [await ask(provider, request(UserMessage(content=text), **fields)) for text in texts]


async def test_a_current_model_behind_another_host_is_asked_over_the_wire_that_its_tools_need():
    async with provider_server(["one", "two"], strict=True) as server:
        provider = connect(server, "openai")
        first, second = await asked_of(provider, "a", "b", model="gpt-6-sol", effort="high", tools=(GREP,))
        await provider.close()
        assert paths(server) == ["chat/completions", "responses", "responses"]
    assert [first.text, second.text] == ["one", "two"]
    assert "Responses API" in first.report.notice
    assert second.report.notice == ""


@pytest.mark.parametrize(("status", "told"), [(400, WANTS_RESPONSES), (404, NOT_CHAT)])
async def test_the_words_of_a_refusal_decide(status, told):
    async with provider_server([Step(status=status, error=told), "ok", "ok"]) as server:
        provider = connect(server, "openai")
        await asked_of(provider, "a")
        await provider.close()
        assert paths(server) == ["chat/completions", "responses"]


async def test_the_user_is_told_once_that_the_wire_was_changed(tmp_path):
    called = Step(calls=[Call(name="list_dir", arguments={"target_directory": "."})])
    ended, requests = await run_and_ask(tmp_path, Step(status=400, error=WANTS_RESPONSES), called, "Done.")
    assert (ended.code, ended.out.strip()) == (0, "Done.")
    assert ended.err.count("the Responses API") == 1
    assert [request.path for request in requests] == ["/v1/chat/completions", "/v1/responses", "/v1/responses"]


async def test_a_host_without_responses_is_spoken_to_over_chat_completions():
    missing = Step(status=404, body='{"detail": "Not Found"}')
    async with provider_server([missing, "one", "two"]) as server:
        provider = connect(server, "responses")
        first, second = await asked_of(provider, "a", "b")
        await provider.close()
        assert paths(server) == ["responses", "chat/completions", "chat/completions"]
    assert "chat completions" in first.report.notice
    assert (second.text, second.report.notice) == ("two", "")


async def test_a_host_that_has_neither_is_asked_once_each():
    async with provider_server([Step(status=404, body='{"detail": "Not Found"}')], repeat=True) as server:
        provider = connect(server, "responses")
        with pytest.raises(ProviderError) as caught:
            await asked_of(provider, "a")
        await provider.close()
        assert paths(server) == ["responses", "chat/completions"]
    assert caught.value.code == "address_unknown"


async def test_an_unknown_model_is_no_reason_to_change_the_wire():
    complaint = "The model `nope` does not exist or you do not have access to it."
    async with provider_server(
        [Step(status=404, error=complaint, error_type="model_not_found")], repeat=True
    ) as server:
        provider = connect(server, "responses")
        with pytest.raises(ProviderError) as caught:
            await asked_of(provider, "a")
        await provider.close()
        assert set(paths(server)) == {"responses"}
    assert caught.value.code == "model_unknown"


@pytest.mark.parametrize(
    ("told", "left"),
    [
        ("Encrypted content is not supported with this model.", {"reasoning", "prompt_cache_key"}),
        ("Unsupported parameter: 'reasoning.summary' is not supported.", {"include", "prompt_cache_key", "reasoning"}),
        ("Unknown parameter: 'prompt_cache_key'.", {"include", "reasoning"}),
    ],
)
async def test_options_that_a_host_refuses_are_left_out_from_then_on(told, left):
    async with provider_server([Step(status=400, error=told), "one", "two"]) as server:
        provider = connect(server, "responses")
        await asked_of(provider, "a", "b", effort="low", session="s1")
        await provider.close()
        bodies = [request.json for request in server.answered]
    assert [body.keys() & {"include", "reasoning", "prompt_cache_key"} for body in bodies[1:]] == [left] * 2
    assert bodies[2].get("reasoning", {}).get("effort") == "low"
    assert ("summary" in bodies[2].get("reasoning", {})) == ("summary" not in told)


async def test_an_effort_that_is_refused_is_left_out_and_said():
    complaint = "Unsupported value: 'max' is not supported with the 'm' model. Supported values are: 'low'."
    body = json.dumps({"error": {"message": complaint, "type": "invalid_request_error", "param": "reasoning.effort"}})
    async with provider_server([Step(status=400, body=body), "one"]) as server:
        provider = connect(server, "responses")
        (answer,) = await asked_of(provider, "a", effort="max")
        await provider.close()
        assert server.answered[1].json["reasoning"] == {"summary": "auto"}
    assert "effort level max" in answer.report.notice


async def test_a_complaint_about_a_reasoning_item_takes_no_option_away():
    complaint = "Item 'rs_1' of type 'reasoning' was provided without its required following item."
    async with provider_server([Step(status=400, error=complaint)], repeat=True) as server:
        provider = connect(server, "responses")
        with pytest.raises(ProviderError, match="required following item"):
            await asked_of(provider, "a", effort="low")
        await provider.close()
        assert len(server.answered) == 1


async def test_a_conversation_crosses_from_one_wire_to_the_other_and_back():
    history = [UserMessage(content="Do it.")]
    async with provider_server([CALLING] * 3 + ["done"], strict=True) as server:
        chat, responses = connect(server, "openai"), connect(server, "responses")
        for provider, model in ((chat, "tiny-1"), (responses, "gpt-6-sol"), (chat, "tiny-1"), (responses, "gpt-6-sol")):
            answer = await ask(provider, request(*history, model=model, tools=(GREP,)))
            message = answer.message(f"{provider.name}/{model}")
            history += [message, *(ToolMessage(call_id=call.id, content="r") for call in message.tool_calls)]
        await chat.close()
        await responses.close()
        assert server.rules.refusals == []
        last = server.answered[-1].json["input"]
    types = [entry["type"] for entry in last]
    calls = ["function_call", "function_call_output"]
    assert types == ["message", *calls, "reasoning", *calls, *calls]
    assert answer.report.dropped_reasoning == 2


async def test_a_patch_written_as_free_text_is_an_edit_like_any_other(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    patch = '*** Begin Patch\n*** Update File: a.txt\n one\n-two\n+"TWO" ü\n*** End Patch'
    steps = [
        Step(calls=[Call(name="read_file", arguments={"target_file": "a.txt"})]),
        Step(calls=[Call(name="apply_patch", arguments={"input": patch}, freeform="input")], piece=5),
        "Done.",
    ]
    async with provider_server(steps, strict=True) as server:
        wires.configure(monkeypatch, server)
        ended = await run(
            tmp_path, "-p", "Do it", "--model", wires.MODELS["responses"], "--accept", "all", env=environment(server)
        )
        assert server.rules.refusals == []
        listed = [tool for tool in server.answered[0].json["tools"] if tool["type"] != "tool_search"]
        tools = {tool["name"]: tool["type"] for tool in listed}
        [form] = [tool["format"] for tool in listed if tool["name"] == "apply_patch"]
        results = [entry["type"] for entry in server.answered[-1].json["input"] if entry["type"].endswith("_output")]
    assert (ended.code, ended.err.count("Traceback")) == (0, 0)
    assert (tools["apply_patch"], tools["read_file"]) == ("custom", "function")
    assert (form["type"], form["syntax"]) == ("grammar", "lark")
    assert 'begin: "*** Begin Patch" LF' in form["definition"]
    assert results == ["function_call_output", "custom_tool_call_output"]
    assert (tmp_path / "a.txt").read_text() == 'one\n"TWO" ü\n'
