"""Words of an error count as whole words, with a status that fits, and never those of the user that it repeats."""

from __future__ import annotations

import json
from typing import Any

import pytest

from core.providers.connection.failures import Api, build_status_error
from core.providers.connection.refusals import REFUSALS, find_refusal, matches_words
from tests.unit.providers.connection.error_bodies import ANSWERS, Answer

MODEL = "gpt-9"
NAMED = [each for each in ANSWERS if each.code in {row.code for row in REFUSALS} | {"context_overflow"}]
ECHOES: dict[str, Any] = {
    "pydantic": lambda text: {
        "detail": [
            {"type": "missing", "loc": ["body", "messages", 0], "msg": "Field required", "input": {"text": text}}
        ]
    },
    "vllm": lambda text: {
        "object": "error",
        "message": f"[{{'type': 'missing', 'msg': 'Field required', 'input': {text!r}, 'url': 'https://x'}}]",
        "code": 400,
    },
    "validation text": lambda text: (
        f"1 validation error\nmessages.0\n  Field required [type=missing, input_value={text!r}, input_type=str]"
    ),
    "litellm": lambda text: {
        "error": {
            "message": f"litellm.BadRequestError: no. Received Messages=[{{'role': 'user', 'content': {text!r}}}]"
        }
    },
    "groq": lambda text: {"error": {"message": "no.", "code": "json_validate_failed", "failed_generation": text}},
    "gateway": lambda text: {"error": {"message": "no.", "request": {"messages": [{"content": text}]}}},
}


def classify(status: int, body: object, model: str = MODEL) -> str:
    return build_status_error(status, body, {}, Api(label="It", base_url="https://x/v1", model=model)).code


@pytest.mark.parametrize("case", NAMED, ids=lambda case: case.name)
def test_n43_what_a_server_repeats_of_the_prompt_is_no_reason_of_its_own(case: Answer):
    for status, code in ((400, "request_invalid"), (422, "request_invalid"), (500, "server_failed")):
        assert {classify(status, repeat(case.text())) for repeat in ECHOES.values()} == {code}


@pytest.mark.parametrize("case", NAMED, ids=lambda case: case.name)
def test_n43_words_count_from_the_beginning_of_a_word(case: Answer):
    glued = "".join(f"x{part}" if part[0].isalnum() else part for part in split_words(case.text()))
    refusal = find_refusal(case.status, glued)
    assert refusal is None or "PerDay" in case.text()


def split_words(text: str) -> list[str]:
    parts, at = [], 0
    for place in range(1, len(text) + 1):
        if place == len(text) or text[place].isalnum() != text[place - 1].isalnum():
            parts.append(text[at:place])
            at = place
    return parts


@pytest.mark.parametrize(
    "name", ["out-of-memory-7b", "oom-test", "insufficient_quota", "loading model", "prompt is too long"]
)
@pytest.mark.parametrize("status", [400, 404, 500])
def test_n43_the_name_of_a_model_is_no_reason(name: str, status: int):
    body = {"error": {"message": f"The model `{name}` does not exist", "param": name}}
    plain = {"error": {"message": f"The model `{MODEL}` does not exist", "param": MODEL}}
    assert classify(status, body, name) == classify(status, plain)


@pytest.mark.parametrize(
    "text", ["boom", "BOOM", "room", "zoom", "no room left", "mushrooms", "oomph", "kaboom: failed"]
)
def test_n43_out_of_memory_is_a_word_of_its_own(text: str):
    assert classify(500, {"error": {"message": text}}) == "server_failed"
    assert classify(500, text) == "server_failed"


@pytest.mark.parametrize("status", [400, 401, 404, 408, 422, 429])
@pytest.mark.parametrize("text", ["OOM", "out of memory", "CUDA out of memory"])
def test_n43_out_of_memory_is_a_fault_of_the_server(status: int, text: str):
    assert classify(status, {"error": {"message": text}}) != "out_of_memory"
    assert classify(500 + status % 4, {"error": {"message": text}}) == "out_of_memory"


@pytest.mark.parametrize("row", REFUSALS, ids=lambda row: row.code)
def test_n43_a_rejected_key_is_one_whatever_the_body_says(row):
    assert 401 not in row.statuses
    assert row.statuses
    assert not matches_words(row.words, json.dumps({"error": {"message": "something else went wrong", "code": "no"}}))
