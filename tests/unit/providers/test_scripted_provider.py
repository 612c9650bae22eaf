from __future__ import annotations

import json

import pytest

from core.errors import ConfigError, ContextOverflow, ProviderError
from core.protocol.messages import AssistantMessage, ToolCall, ToolMessage, Usage, UserMessage
from core.providers.base import StreamEnd, TextDelta, ToolCallDelta
from core.providers.scripted_provider import ScriptedProvider
from tests.support.provider_calls import Answer, ask, request


class Talk:
    """A conversation with a script; every answer comes from a provider that has just been started."""

    def __init__(self, path, text):
        self.path = path / "script.yaml"
        self.path.write_text(text, encoding="utf-8")
        self.messages = []

    def provider(self):
        return ScriptedProvider.from_file(self.path, speed=0)

    async def model(self) -> Answer:
        answer = await ask(self.provider(), request(*self.messages))
        calls = tuple(ToolCall(**call) for call in answer.calls)
        self.messages.append(AssistantMessage(content=answer.text, tool_calls=calls))
        return answer

    async def says(self, prompt, origin="user") -> str:
        self.messages.append(UserMessage(content=prompt, origin=origin))
        return (await self.model()).text

    async def returns(self, result, *, is_error=False) -> str:
        call = next(message for message in reversed(self.messages) if isinstance(message, AssistantMessage)).tool_calls[
            -1
        ]
        self.messages.append(ToolMessage(call_id=call.id, content=result, is_error=is_error))
        return (await self.model()).text


@pytest.fixture
def talk(tmp_path):
    return lambda text: Talk(tmp_path, text)


def tagged(name, text):
    return f"<{name}>\n{text}\n</{name}>"


def query(text):
    return tagged("user_query", text)


CALL = "tool_calls: [{name: grep, arguments: {pattern: x}}]"


async def test_turns_are_played_in_order_and_then_otherwise(talk):
    conversation = talk("turns: [{steps: [one]}, [two], {steps: [{text: three}]}]\notherwise: over")
    assert [await conversation.says("x") for _ in range(5)] == ["one", "two", "three", "over", "over"]


async def test_a_prompt_finds_the_turn_that_it_matches(talk):
    conversation = talk(
        """
turns:
  - {match: (?i)plan, steps: [planned]}
  - {match: tests?, repeat: true, steps: [tested]}
  - steps: [first]
  - steps: [second]
otherwise: [{text: over}]
"""
    )
    prompts = ["run the test", "hello", "Make a PLAN", "run the test", "what?", "plan again"]
    assert [await conversation.says(prompt) for prompt in prompts] == [
        "tested",
        "first",
        "planned",
        "tested",
        "second",
        "over",
    ]


async def test_steps_follow_the_answers_of_a_turn(talk):
    conversation = talk(f"steps: [{{text: a, {CALL}}}, {{text: b, {CALL}}}, c]\notherwise: over")
    assert await conversation.says("go") == "a"
    assert await conversation.returns("r1") == "b"
    conversation.messages.append(UserMessage(content="<system_reminder>mind</system_reminder>", origin="program"))
    assert await conversation.returns("r2") == "c"
    assert await conversation.says("and now?") == "over"


async def test_what_the_user_sends_meanwhile_is_not_a_new_turn(talk):
    conversation = talk(f"turns: [[{{text: a, {CALL}}}, b], [next]]")
    await conversation.says("<user_query>\ngo\n</user_query>")
    conversation.messages.append(ToolMessage(call_id=conversation.messages[-1].tool_calls[0].id, content="r"))
    steer = tagged("system_reminder", "The user sent this while you were working. Mind it.") + "\n" + query("hey")
    assert await conversation.says(steer) == "b"
    assert await conversation.says("<user_query>\nmore\n</user_query>") == "next"


async def test_a_step_whose_condition_does_not_hold_is_skipped(talk):
    conversation = talk(
        f"""
steps:
  - {{text: run, {CALL}}}
  - {{when: FAILED, text: fix, {CALL}}}
  - {{when: {{failed: true}}, text: error}}
  - {{when: {{step: 9}}, text: never}}
  - {{when: {{told: rejected}}, text: sorry}}
  - fine
"""
    )
    await conversation.says("go")
    assert await conversation.returns("3 passed") == "fine"
    conversation.messages.clear()
    await conversation.says("go")
    assert await conversation.returns("1 FAILED") == "fix"
    assert await conversation.returns("boom", is_error=True) == "error"
    conversation.messages.clear()
    await conversation.says("go")
    conversation.messages.append(UserMessage(content="rejected: a.py", origin="program"))
    assert await conversation.returns("ok") == "sorry"


async def test_the_mode_that_the_model_was_told_of_decides(talk):
    conversation = talk(
        f"turns: [{{mode: plan, repeat: true, steps: [planning]}}, {{repeat: true, steps: [{{{CALL}, text: a}}, "
        "{when: {mode: ask}, text: asking}, {text: '{{mode}}'}]}]"
    )
    assert (
        await conversation.says(
            "<system_reminder>\nPlan mode: no edits.\n</system_reminder>\n<user_query>\nx\n</user_query>"
        )
        == "planning"
    )
    assert (
        await conversation.says(
            "<system_reminder>\nAgent mode: go.\n</system_reminder>\n<user_query>\nx\n</user_query>"
        )
        == "a"
    )
    assert await conversation.returns("r") == "agent"
    assert await conversation.says("again") == "a"
    conversation.messages.append(
        UserMessage(content="<system_reminder>\nAsk mode: look.\n</system_reminder>", origin="program")
    )
    assert await conversation.returns("r") == "asking"


async def test_places_are_filled_in(talk):
    conversation = talk(
        f"""
steps:
  - {{text: "{{{{prompt}}}} in {{{{ workspace }}}}", {CALL}}}
  - text: "got {{{{last_tool_result}}}}"
    tool_calls: [{{name: write, arguments: {{path: "{{{{find:wrote (\\\\S+)}}}}", n: [1, "{{{{mode}}}}"]}}}}]
"""
    )
    assert (
        await conversation.says("<user_info>\nWorkspace: /home/me/x\n</user_info>\n<user_query>\ndo it\n</user_query>")
        == "do it in /home/me/x"
    )
    assert await conversation.returns("wrote a.plan.md now") == "got wrote a.plan.md now"
    assert json.loads(conversation.messages[-1].tool_calls[0].arguments) == {"path": "a.plan.md", "n": [1, ""]}


async def test_calls_usage_and_finish_are_played(talk):
    conversation = talk(
        """
- reasoning: hm
  tool_calls:
    - {name: grep, arguments: '{"cut'}
    - {name: grep, id: mine}
    - {name: grep, id: mine}
  usage: {prompt_tokens: 7, completion_tokens: 3, cached_tokens: 2}
- {text: long, finish: length}
"""
    )
    answer = await conversation.provider().list_models()
    assert answer[0].name.endswith("script.yaml")
    conversation.messages.append(UserMessage(content="x"))
    answer = await conversation.model()
    assert answer.reasoning == "hm"
    assert [call["arguments"] for call in answer.calls] == ['{"cut', "{}", "{}"]
    assert len({call["id"] for call in answer.calls}) == 3
    assert answer.usage == Usage(prompt_tokens=7, completion_tokens=3, cached_tokens=2)
    assert answer.finish == "tool_calls"
    assert (await conversation.model()).finish == "length"


async def test_usage_is_estimated_and_grows_with_the_conversation(talk):
    conversation = talk("turns: [[one], [two]]")
    conversation.messages.append(UserMessage(content="x" * 400))
    first = (await conversation.model()).usage
    conversation.messages.append(UserMessage(content="y" * 400))
    second = (await conversation.model()).usage
    assert first.prompt_tokens > 100
    assert second.prompt_tokens > first.prompt_tokens + 90
    assert 0 < second.cached_tokens < second.prompt_tokens


@pytest.mark.parametrize("chunk", [0, 1, 7])
async def test_pieces_make_up_the_text_whatever_their_size(talk, chunk):
    text = "Grüße,  Welt!\n\n    indented\n\ttabs averyveryverylongwordwithoutanyspace  \n"
    conversation = talk(
        json.dumps({"chunk": chunk, "steps": [{"text": text, "tool_calls": [{"name": "a", "arguments": text}]}]})
    )
    conversation.messages.append(UserMessage(content="x"))
    answer = await conversation.model()
    assert answer.text == text
    assert answer.calls[0]["arguments"] == text
    assert sum(isinstance(delta, TextDelta) for delta in answer.deltas) > 5
    assert sum(isinstance(delta, ToolCallDelta) for delta in answer.deltas) > 5


async def test_v2_a_cut_ends_without_a_finish(talk):
    conversation = talk("steps: [{text: one two three four, cut: 0.5}]")
    answer = Answer()
    with pytest.raises(ProviderError) as caught:
        await ask(conversation.provider(), into=answer)
    assert caught.value.code == "stream_cut"
    assert answer.text == "one two"
    assert not any(isinstance(delta, StreamEnd) for delta in answer.deltas)


async def test_v1_faults_are_played_as_often_as_they_are_meant(talk):
    conversation = talk("steps: [{error: {status: 429, retry_after: 2, times: 2}, text: at last}]")
    provider = conversation.provider()
    for _ in range(2):
        with pytest.raises(ProviderError) as caught:
            await ask(provider)
        assert (caught.value.code, caught.value.retry_after, caught.value.retryable) == ("rate_limited", 2, True)
    assert (await ask(provider)).text == "at last"
    always = talk("steps: [{error: {status: 400, message: prompt is too long}}]").provider()
    for _ in range(3):
        with pytest.raises(ContextOverflow):
            await ask(always)


async def test_a_request_without_tools_gets_the_notes(talk):
    conversation = talk("steps: [work]\nnotes: what happened")
    assert (await ask(conversation.provider(), request(tools=()))).text == "what happened"
    assert (await ask(conversation.provider())).text == "work"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("turns:\n  - match: '('\n    steps: [x]", 2, "regular expression"),
        ("turns:\n  - steps:\n    - txt: x", 3, "unknown key, perhaps `text`"),
        ("turns:\n  - match: x", 2, "without steps"),
        ("steps:\n - text: [1]", 2, "`text` is a list"),
        ("steps:\n - text: x\n   finish: done", 3, "`finish` is none of its values"),
        ("steps:\n - tool_calls:\n    - arguments: {}", 3, "without a name"),
        ("steps:\n - tool_calls: {name: x}", 2, "not a list"),
        ("steps:\n - text: x\n   delay_ms: fast", 3, "`delay_ms` is not a number"),
        ("steps:\n - text: 'x\n", 2, "not valid YAML"),
        ("steps:\n - {text: a, text: b}", 2, "not valid YAML"),
        ("name: x", 1, "no answers"),
        ("just a text", 1, "has to be a mapping"),
        ("", 1, "has to be a mapping"),
        ("steps:\n - text: x\n   error: 429", 3, "`error` has to be a mapping"),
        ("steps:\n - text: x\n   usage: {tokens: 3}", 3, "unknown key"),
    ],
)
def test_a_bad_script_is_refused_with_file_and_line(talk, text, line, words):
    with pytest.raises(ConfigError) as caught:
        talk(text).provider()
    assert f"script.yaml, line {line}:" in caught.value.message
    assert words in caught.value.message
    assert "\n" not in caught.value.format_with_hint()


def test_a_script_that_can_not_be_read_is_explained(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        ScriptedProvider.from_file(tmp_path / "missing.yaml")
    with pytest.raises(ConfigError, match="directory"):
        ScriptedProvider.from_file(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"- gr\xfc\xdfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        ScriptedProvider.from_file(tmp_path / "latin.yaml")


async def test_the_example_of_the_documentation_works(talk, request):
    page = (request.config.rootpath / "docs" / "dev" / "scripted-models.md").read_text(encoding="utf-8")
    conversation = talk(page.split("```yaml\n")[1].split("```")[0])
    assert await conversation.says("Fix the failing test") == "Let me look."
    assert await conversation.returns("assert rate == 0.19") == "The rate is wrong."
    assert json.loads(conversation.messages[-1].tool_calls[0].arguments)["new_string"] == "RATE = 0.19"
    assert await conversation.returns("1 replacement") == "Done. The change waits for your review."
    assert "end" in await conversation.says("And now?")


async def test_the_pace_is_kept_and_can_be_changed(talk, monkeypatch):
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)

    monkeypatch.setattr("core.providers.scripted_provider.asyncio.sleep", sleep)
    conversation = talk(
        "tokens_per_second: 50\n"
        "steps: [one two three, {text: one two, delay_ms: 40}, {text: a b, tokens_per_second: 0}]"
    )
    for speed in ("1", "4", "0", "nonsense"):
        monkeypatch.setenv("AGENT_TUI_SCRIPT_SPEED", speed)
        await ask(ScriptedProvider.from_file(conversation.path))
    assert pauses == [0.02, 0.02, 0.005, 0.005, 0.02, 0.02]
    pauses.clear()
    for count in (1, 2):
        history = [UserMessage(content="x"), *[AssistantMessage(content="y")] * count]
        await ask(ScriptedProvider.from_file(conversation.path, speed=1), request(*history))
    assert pauses == [0.04]
