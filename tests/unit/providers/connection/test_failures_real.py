from __future__ import annotations

import pytest

from core.errors import ContextOverflow, ProviderError
from core.providers.connection.failures import Api, build_event_error, build_status_error
from core.providers.connection.refusals import parse_duration, parse_wait
from tests.support.provider_calls import ask, connect
from tests.support.provider_server import provider_server
from tests.support.provider_streams import Step
from tests.unit.providers.connection.error_bodies import ANSWERS, Answer

API = Api(label="The host", base_url="https://host/v1", model="gpt-9", key="the keyring", provider="host")
NOW = 1_700_000_000.0


@pytest.fixture(autouse=True)
def now(monkeypatch):
    monkeypatch.setattr("core.providers.connection.refusals.time.time", lambda: NOW)


@pytest.mark.parametrize("case", ANSWERS, ids=lambda case: case.name)
def test_a_real_refusal_is_told_by_its_words_with_what_to_do(case: Answer):
    error = build_status_error(case.status, case.body, case.headers, API)
    assert (error.code, error.retryable) == (case.code, case.retryable)
    assert error.retry_after == (None if case.wait is None else pytest.approx(case.wait))
    text = error.format_with_hint()
    assert error.hint
    assert "\n" not in text
    assert "The host" in text or "gpt-9" in text
    for words in case.says:
        assert words.lower() in text.lower()


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
async def test_each_real_refusal_comes_through_the_sdk_as_it_is(dialect):
    asked_again = {"mistral-field", "openai-needs-responses"}  # without the field, over the other wire
    cases = [answer for answer in ANSWERS if answer.name not in asked_again]
    steps = [Step(status=answer.status, body=answer.text(), headers=answer.headers) for answer in cases]
    async with provider_server(steps) as server:
        provider = connect(server, dialect, label="The host")
        errors = [await failure_of(provider) for _ in cases]
        await provider.close()
    assert [error.code for error in errors] == [case.code for case in cases]
    assert [error.retryable for error in errors] == [case.retryable for case in cases]


async def failure_of(provider) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await ask(provider)
    return caught.value


@pytest.mark.parametrize(
    ("span", "seconds"),
    [
        ("22.5s", 22.5),
        ("1m0.36s", 60.36),
        ("2h3m", 7380.0),
        ("6ms", 0.006),
        ("1d", 86_400.0),
        ("", None),
        ("soon", None),
    ],
)
def test_a_span_of_time_is_read(span, seconds):
    assert parse_duration(span) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        (
            {
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": "2023-11-14T22:14:20Z",
                "anthropic-ratelimit-requests-remaining": "40",
                "anthropic-ratelimit-requests-reset": "2023-11-14T23:14:20Z",
            },
            60.0,
        ),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1700000030"}, 30.0),
        ({"x-ratelimit-remaining": "12", "x-ratelimit-reset": "1700000030"}, None),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "whenever"}, None),
        ({"retry-after": "-5", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "3"}, 3.0),
    ],
)
def test_the_reset_of_a_limit_counts_when_nothing_of_it_is_left(headers, wait):
    assert parse_wait(headers) == (None if wait is None else pytest.approx(wait))


@pytest.mark.parametrize("code", [429, "429"])
def test_a_model_that_is_away_within_a_stream_says_for_how_long(code):
    body = {"error": {"code": code, "message": "Resource exhausted. Please retry in 12.3s.", "type": "x"}}
    error = build_event_error(body, API)
    assert (error.code, error.retry_after, error.retryable) == ("rate_limited", pytest.approx(12.3), True)


def test_what_lm_studio_says_with_a_status_of_200_is_no_fault_of_a_server():
    error = build_event_error({"error": "Unexpected endpoint or method. (POST /chat/completions)"}, API)
    assert (error.code, error.retryable) == ("address_unknown", False)


def test_an_overflow_within_a_stream_is_one():
    assert isinstance(
        build_event_error({"error": {"message": "Context size has been exceeded."}}, API), ContextOverflow
    )


@pytest.mark.parametrize(("dialect", "advice"), [("openai", "often ends in /v1"), ("anthropic", "goes without /v1")])
@pytest.mark.parametrize("status", [200, 404])
async def test_a_page_from_a_wrong_address_is_told_with_the_form_of_the_right_one(dialect, advice, status):
    async with provider_server([Step(status=status, body="<html><title>Welcome</title></html>")]) as server:
        provider = connect(server, dialect)
        error = await failure_of(provider)
        await provider.close()
    assert advice in error.hint
