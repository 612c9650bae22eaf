from __future__ import annotations

import pytest

from core.protocol.messages import AssistantMessage, EffortMessage, Usage, UserMessage, WireAnswer
from core.providers.base import RequestReport
from tests.support import wires
from tests.support.makers import makers_own
from tests.support.model_server.step import Call, Say, Step, Think
from tests.support.provider_calls import ask, connect, request

SONNET, OPUS, GPT = "claude-sonnet-5-5", "claude-opus-5-5", "gpt-6.1-terra"


def wire_of(model: str) -> str:
    return "anthropic" if model.startswith("claude") else "responses"


def betas_of(sent) -> list[str]:
    return list(filter(None, sent.headers.get("anthropic-beta", "").split(",")))


@pytest.mark.parametrize("model", [SONNET, GPT])
async def test_a_changed_effort_goes_into_the_history_and_the_cache_is_hit(monkeypatch, model):
    thought = Step(parts=[Think(text="Hm. " * 40), Say(text="One.")])
    async with makers_own(monkeypatch, thought, "Two.", "Three.") as server:
        provider = connect(server, wire_of(model))
        name = f"{provider.name}/{model}"
        messages = [UserMessage(content="First. " * 300)]
        for effort in ("high", "low", "low"):
            if effort == "low" and len(server.answered) == 1:
                messages += [UserMessage(content="Next."), EffortMessage(effort="low", before="high")]
            elif effort == "low":
                messages.append(UserMessage(content="And?"))
            asked = request(*messages, model=model, effort=effort, session="s")
            messages.append((await ask(provider, asked)).message(name))
        await provider.close()
    assert server.rules.refusals == []
    assert wires.breaks(server.answered) == []
    sent = [answered.json for answered in server.answered]
    tops = [body.get("output_config") or body.get("reasoning") for body in sent]
    assert [top["effort"] for top in tops] == ["high", "high", "high"]
    for body in sent[1:]:
        changes = [item for item in body.get("messages", body.get("input")) if "effort" in str(item)]
        assert len(changes) == 1
    assert [cached > 0 for _, cached in wires.cached(server)] == [False, True, True]
    assert wires.cached(server)[1][1] > 0.9 * wires.cached(server)[0][0]
    expected = ["mid-conversation-output-config-2026-07-01"] if model == SONNET else []
    assert [beta for beta in betas_of(server.answered[1]) if "output-config" in beta] == expected


@pytest.mark.parametrize("model", ["claude-opus-4-8", "gpt-5.6-sol", "gpt-4.1"])
async def test_a_model_that_does_not_know_such_a_change_gets_none(monkeypatch, model):
    async with makers_own(monkeypatch, "One.") as server:
        provider = connect(server, wire_of(model))
        change = EffortMessage(effort="low", before="high")
        effort = "" if model == "gpt-4.1" else "low"
        await ask(provider, request(UserMessage(content="a"), change, model=model, effort=effort))
        await provider.close()
    assert server.rules.refusals == []
    body = server.answered[0].json
    assert len(body.get("messages", body.get("input"))) == (2 if "messages" in body and "system" not in body else 1)
    top = body.get("output_config") or body.get("reasoning") or {}
    assert top.get("effort", "") == effort


async def test_a_cache_lives_for_an_hour_where_the_session_pauses_and_reasoning_stays_bound(monkeypatch):
    step = Step(
        parts=[Think(text="Hm. " * 40), Call(name="grep", arguments={"pattern": "x"})],
        usage={"prompt": 5_000, "completion": 5, "cache_write": 4_000},
    )
    async with makers_own(monkeypatch, step, step, step) as server:
        provider = connect(server, "anthropic")
        usages = [
            (await ask(provider, request(model=OPUS, session="s", cache=cache))).usage
            for cache in ("", "prefix", "all")
        ]
        await provider.close()
    assert server.rules.refusals == []
    marks = [(sent.json["system"][0]["cache_control"], sent.json["cache_control"]) for sent in server.answered]
    short, long = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}
    assert marks == [(short, short), (long, short), (long, long)]
    assert [(usage.cache_write_tokens, usage.long_cache_tokens) for usage in usages] == [
        (4_000, 0),
        (4_000, 0),
        (4_000, 4_000),
    ]


async def test_the_head_of_another_lifetime_binds_reasoning_as_before(monkeypatch):
    thought = Step(parts=[Think(text="Hm. " * 40), Say(text="One.")])
    async with makers_own(monkeypatch, thought, "Two.") as server:
        provider = connect(server, "anthropic")
        first, second = UserMessage(content="a"), UserMessage(content="b")
        answer = (await ask(provider, request(first, model=OPUS, session="s"))).message(f"{provider.name}/{OPUS}")
        again = await ask(provider, request(first, answer, second, model=OPUS, session="s", cache="all"))
        await provider.close()
    assert server.rules.refusals == []
    assert again.report.dropped_reasoning == 0
    assert b'"signature"' in server.answered[1].raw


async def test_openai_keeps_a_cache_for_twelve_hours_where_the_session_pauses(monkeypatch):
    usage = {"prompt": 5_000, "completion": 5, "cache_write": 4_000}
    async with makers_own(monkeypatch, *[Step(text="x", usage=usage)] * 3) as server:
        provider = connect(server, "responses")
        await ask(provider, request(model=GPT, cache="prefix"))
        answer = await ask(provider, request(model=GPT, cache="all"))
        await ask(provider, request(model="gpt-5.4", cache="all"))
        await provider.close()
    assert server.rules.refusals == []
    options = [sent.json.get("prompt_cache_options") for sent in server.answered]
    assert options == [None, {"ttl": "12h"}, None]
    assert (answer.usage.cache_write_tokens, answer.usage.long_cache_tokens) == (4_000, 4_000)


@pytest.mark.parametrize(
    ("model", "tier", "fields"),
    [
        (OPUS, "fast", {"speed": "fast"}),
        ("claude-opus-5", "fast", {"speed": "fast"}),
        (OPUS, "flex", {}),
        (SONNET, "fast", {}),
        (GPT, "fast", {"service_tier": "fast"}),
        (GPT, "flex", {"service_tier": "flex"}),
        ("gpt-6.2-sol", "flex", {}),
        ("gpt-5.4", "fast", {"service_tier": "fast"}),
    ],
)
async def test_a_service_tier_is_asked_for_where_the_model_has_it(monkeypatch, model, tier, fields):
    async with makers_own(monkeypatch, "One.") as server:
        provider = connect(server, wire_of(model))
        answer = await ask(provider, request(model=model, tier=tier))
        await provider.close()
    assert server.rules.refusals == []
    sent = {
        name: server.answered[0].json[name] for name in ("speed", "service_tier") if name in server.answered[0].json
    }
    assert sent == fields
    assert answer.usage.tier == (tier if "service_tier" in fields or "speed" in fields else "")


async def test_a_tier_that_the_server_refuses_is_left_out_and_that_is_told(monkeypatch):
    refusal = Step(status=400, error="Unsupported parameter: 'service_tier'.", error_type="invalid_request_error")
    async with makers_own(monkeypatch, refusal, "One.", "Two.") as server:
        provider = connect(server, "responses")
        first = await ask(provider, request(model=GPT, tier="fast"))
        second = await ask(provider, request(model=GPT, tier="fast"))
        await provider.close()
    assert "does not offer the service tier fast" in first.report.notice
    assert second.report == RequestReport()
    assert ["service_tier" in sent.json for sent in server.answered] == [True, False, False]


async def test_an_answer_that_may_take_hours_is_made_in_the_background_and_asked_for(monkeypatch):
    monkeypatch.setattr("core.providers.openai.provider.FIRST_POLL", 0.01)
    step = Step(parts=[Think(text="Hm."), Say(text="Done."), Call(name="grep", arguments={"pattern": "x"})])
    async with makers_own(monkeypatch, step) as server:
        provider = connect(server, "responses")
        answer = await ask(provider, request(model="gpt-6.2-sol", tier="8h"))
        await provider.close()
    body = server.answered[0].json
    assert server.rules.refusals == []
    assert (body["background"], body["stream"]) == (True, False)
    assert body["background_options"] == {"completion_window": "8h"}
    assert (answer.text, answer.finish, answer.usage.tier) == ("Done.", "tool_calls", "8h")
    assert [call["name"] for call in answer.calls] == ["grep"]
    assert [sent.path for sent in server.requests if sent.method == "GET"] == ["/v1/responses/resp_1"] * 2


@pytest.mark.parametrize(
    ("model", "removed", "words"),
    [
        (
            OPUS,
            [
                {"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "prefix_binding_mismatch"},
                {"type": "thinking_mismatch_allowed", "path": "messages.3.content.0"},
                {"type": "of_next_year"},
            ],
            "the conversation before it has changed",
        ),
        (
            GPT,
            [{"id": "rs_1", "type": "reasoning", "action": "removed", "reason": "model_mismatch"}],
            "it came from another model",
        ),
        (OPUS, [], ""),
    ],
)
async def test_what_the_service_left_out_by_itself_is_told(monkeypatch, model, removed, words):
    async with makers_own(monkeypatch, Step(text="x", removed=removed)) as server:
        provider = connect(server, wire_of(model))
        answer = await ask(provider, request(model=model))
        await provider.close()
    assert (answer.report.removed_reasoning, answer.report.removal) == (1 if words else 0, words)


async def test_thinking_that_goes_back_asks_to_be_told_what_is_left_out(monkeypatch):
    thought = Step(parts=[Think(text="Hm. " * 40), Say(text="One.")])
    async with makers_own(monkeypatch, thought, "Two.") as server:
        provider = connect(server, "anthropic")
        first, second = UserMessage(content="a"), UserMessage(content="b")
        answer = (await ask(provider, request(first, model=OPUS))).message(f"{provider.name}/{OPUS}")
        await ask(provider, request(first, answer, second, model=OPUS))
        await provider.close()
    assert [betas_of(sent) for sent in server.answered] == [[], ["thinking-binding-controls-2026-08-01"]]


async def test_another_host_with_these_models_gets_none_of_it():
    from tests.support.provider_server import provider_server

    async with provider_server(["One.", "Two."], strict=True) as server:
        for wire, model in (("anthropic", OPUS), ("responses", GPT)):
            provider = connect(server, wire)
            change = EffortMessage(effort="low", before="high")
            asked = request(UserMessage(content="a"), change, model=model, tier="fast", cache="all", effort="low")
            answer = await ask(provider, asked)
            assert isinstance(answer.usage, Usage)
            await provider.close()
    assert server.rules.refusals == []
    for sent in server.answered:
        assert not {"speed", "service_tier", "prompt_cache_options"} & sent.json.keys()
        assert b'"ttl"' not in sent.raw
        assert betas_of(sent) == []


@pytest.mark.parametrize("model", [SONNET, GPT])
async def test_an_api_summarises_a_history_and_takes_its_summary_back(monkeypatch, model):
    thought = Step(parts=[Think(text="Hm. " * 40), Say(text="One.")])
    async with makers_own(monkeypatch, thought, "THE SUMMARY", "Two.", "Three.") as server:
        provider = connect(server, wire_of(model))
        name = f"{provider.name}/{model}"
        first = UserMessage(content="First.")
        answer = (await ask(provider, request(first, model=model, session="s"))).message(name)
        summary = await provider.compact(request(first, answer, model=model, session="s"))
        wire = WireAnswer(wire="messages" if summary.is_first else "responses", items=summary.items)
        kept = AssistantMessage(content="what was", model=name, wire=wire)
        start = (kept, first) if summary.is_first else (first, kept)
        history = [*start, UserMessage(content="Next.")]
        history.append((await ask(provider, request(*history, model=model, session="s"))).message(name))
        await ask(provider, request(*history, UserMessage(content="And?"), model=model, session="s"))
        elsewhere = connect(server, "openai")
        await provider.close()
        await elsewhere.close()
    assert server.rules.refusals == []
    assert wires.breaks(server.answered[-2:]) == []
    assert summary.text == ("THE SUMMARY" if model == SONNET else "")
    assert summary.usage.prompt_tokens > 0
    for sent in server.answered[-2:]:
        assert b'"type":"compaction"' in sent.raw
        assert b"what was" not in sent.raw
    if model == SONNET:
        assert "compaction" not in server.answered[-1].json
        assert [("compact-2026-09-04" in betas_of(sent)) for sent in server.answered] == [False, True, True, True]
    else:
        assert server.answered[1].path.endswith("/responses/compact")
        assert b'"encrypted_content":"gAAAAAB' in server.answered[1].raw


async def test_a_summary_is_text_for_another_model(monkeypatch):
    async with makers_own(monkeypatch, "Two.") as server:
        provider = connect(server, "anthropic")
        block = {"type": "compaction", "content": "THE SUMMARY", "signature": "c2ln"}
        kept = AssistantMessage(
            content="THE SUMMARY", model="anthropic/other", wire=WireAnswer(wire="messages", items=(block,))
        )
        await ask(provider, request(kept, UserMessage(content="Next."), model=OPUS))
        await provider.close()
    assert server.rules.refusals == []
    messages = server.answered[0].json["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert messages[1]["content"] == [{"type": "text", "text": "THE SUMMARY"}]


@pytest.mark.parametrize("model", [SONNET, GPT])
async def test_a_cache_is_warmed_without_an_answer_and_the_request_then_hits_it(monkeypatch, model):
    async with makers_own(monkeypatch, "", "Two.") as server:
        provider = connect(server, wire_of(model))
        asked = request(UserMessage(content="First. " * 300), model=model, session="s", effort="high")
        used = await provider.warm_up(asked)
        await ask(provider, asked)
        await provider.close()
    assert server.rules.refusals == []
    assert used.cache_write_tokens > 0
    (_, before), (prompt, cached) = wires.cached(server)
    assert (before, cached) == (0, prompt)
