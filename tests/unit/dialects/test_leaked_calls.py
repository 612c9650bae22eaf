"""A call in the words of any template is found where an answer ends with it, and nowhere that it is shown."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.dialects.dialect import AnswerText, CallFinished
from core.dialects.leaked_calls import find_leak
from core.dialects.tags import TagParser
from core.dialects.written_edits import WrittenEditParser

GIVEN = {"pattern": "x y", "path": "src"}
JSON = json.dumps(GIVEN)
NAMED = json.dumps({"name": "grep", "arguments": GIVEN})
XML = "<parameter=pattern>\nx y\n</parameter>\n<parameter=path>\nsrc\n</parameter>"
INVOKED = '<parameter name="pattern">x y</parameter>\n<parameter name="path">src</parameter>'
DSML = INVOKED.replace("parameter", "｜DSML｜parameter").replace(' name="pattern"', ' name="pattern" string="true"')
FORMS = {
    "hermes": f"<tool_call>\n{NAMED}\n</tool_call>",
    "qwen": f"<tool_call>\n<function=grep>\n{XML}\n</function>\n</tool_call>",
    "qwen without its first tag": f"<function=grep>\n{XML}\n</function>\n</tool_call>",
    "llama function": f"<function=grep>{JSON}</function>",
    "glm": "<tool_call>grep\n<arg_key>pattern</arg_key>\n<arg_value>x y</arg_value>\n"
    "<arg_key>path</arg_key>\n<arg_value>src</arg_value>\n</tool_call>",
    "deepseek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>grep\n```json\n"
    f"{JSON}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "deepseek newer": f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>grep<｜tool▁sep｜>{JSON}<｜tool▁call▁end｜>",
    "dsml": '<｜DSML｜function_calls>\n<｜DSML｜invoke name="grep">\n'
    f"{DSML}\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    "kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.grep:0<|tool_call_argument_begin|>"
    f"{JSON}<|tool_call_end|><|tool_calls_section_end|>",
    "kimi without tokens": f"functions.grep:0{JSON}",
    "mistral": f"[TOOL_CALLS][{NAMED}]",
    "mistral newer": f"[TOOL_CALLS]grep[ARGS]{JSON}",
    "invoke": f'<function_calls>\n<invoke name="grep">\n{INVOKED}\n</invoke>\n</function_calls>',
    "minimax": f'<minimax:tool_call>\n<invoke name="grep">\n{INVOKED}\n</invoke>\n</minimax:tool_call>',
    "llama": f'<|python_tag|>{{"name": "grep", "parameters": {JSON}}}',
    "bare": NAMED,
    "harmony": f"<|channel|>commentary to=functions.grep <|constrain|>json<|message|>{JSON}<|call|>",
    "nemotron": f"<TOOLCALL>[{NAMED}]</TOOLCALL>",
    "gemini": "tool_code.grep(pattern='x y', path=\"src\")",
    "gemini printed": "print(default_api.grep(pattern='x y', path='src'))",
    "gemini in its fence": "```tool_code\nprint(default_api.grep(pattern='x y', path='src'))\n```",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("before", ["", "I look.\n\n", "```python\nx = 1\n```\n"])
@pytest.mark.parametrize("after", ["", "\n\n"])
def test_an_answer_that_ends_with_a_call_is_found(form, before, after):
    leak = find_leak(before + FORMS[form] + after)
    assert leak is not None
    assert (leak.is_last, leak.is_whole) == (True, True)
    assert [(call.name, json.loads(call.arguments)) for call in leak.calls] == [("grep", GIVEN)]


@pytest.mark.parametrize("form", FORMS)
def test_what_is_shown_is_no_call(form):
    text = FORMS[form]
    for example in (f"So:\n```\n{text}\n```", f"So:\n~~~~xml\n{text}\n~~~~\nThat is it."):
        assert find_leak(example) is None
    if "\n" not in text:
        assert find_leak(f"It is `{text}`.") is None
        assert find_leak(f"> {text}") is None


@pytest.mark.parametrize("form", FORMS)
def test_a_call_in_front_of_more_text_is_not_the_last_of_the_answer(form):
    leak = find_leak(f"{FORMS[form]}\n\nAnd this is how it is written, in one of the many forms.")
    assert leak is None or not leak.is_last


@pytest.mark.parametrize(
    "text",
    [
        "The tag <tool_call> begins a call and </tool_call> ends it.",
        "Models write <function=NAME> and then parameters.",
        "The token <|tool_call_begin|> starts a call.",
        "Done.<|eot_id|>",
        "Done.<|im_end|>",
        '{"name": "demo", "version": 1}',
        "The list [TOOL_CALLS] is the marker of Mistral.",
        "a functions.grep call",
        "Gemini writes default_api.grep(x) for it, as a line of Python.",
        "The namespace is tool_code.",
    ],
)
def test_talking_of_the_forms_is_no_call(text):
    assert find_leak(text) is None


@pytest.mark.parametrize("form", ["hermes", "qwen", "dsml", "kimi", "invoke", "mistral newer", "gemini"])
def test_a_call_that_was_cut_is_told_and_never_run(form):
    text = FORMS[form]
    cut = text[: text.index("x y")]
    leak = find_leak(f"I look.\n{cut}")
    assert leak is not None
    assert (leak.is_last, leak.is_whole) == (True, False)
    listener = WrittenEditParser(lambda _: True)
    assert "".join(event.text for event in [*listener.feed(cut), *listener.finish()]) == cut
    assert listener.ending.problem


@pytest.mark.parametrize("form", FORMS)
def test_a_model_that_writes_its_calls_as_text_may_use_the_words_of_its_template(form):
    listener = TagParser()
    heard = [*listener.feed(f"I look.\n{FORMS[form]}"), *listener.finish()]
    [call] = [event for event in heard if isinstance(event, CallFinished)]
    assert (call.name, json.loads(call.arguments), call.problem) == ("grep", GIVEN, "")
    assert any("I look." in event.text for event in heard if isinstance(event, AnswerText))


@pytest.mark.parametrize("text", ["tool_code.readTool('main.ts')", "print(default_api.find(path=root))"])
def test_a_call_whose_arguments_are_not_certain_is_answered_whatever_its_name(text):
    leak = find_leak(f"I look.\n{text}")
    assert leak is not None
    assert (leak.is_last, leak.is_whole, leak.is_sure) == (True, False, True)


def test_a_call_in_a_namespace_may_follow_words_on_its_line():
    text = "x)\n'y'"
    leak = find_leak(f'Call: tool_code.editTool(filePath="a", diffContent="""{text}""")')
    assert leak is not None
    assert [(call.name, json.loads(call.arguments)["diffContent"]) for call in leak.calls] == [("editTool", text)]


@given(
    st.lists(
        st.sampled_from([*FORMS.values(), "\n", "```\n", "`", " text ", "<", "}", "é\u2028", "<arg_key>"]), max_size=8
    )
)
def test_no_text_is_too_odd_to_be_read(parts):
    leak = find_leak("".join(parts))
    assert leak is None or all(isinstance(json.loads(call.arguments), dict) for call in leak.calls)
