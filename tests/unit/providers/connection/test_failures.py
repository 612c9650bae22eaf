from __future__ import annotations

import email.utils

import pytest

from core.errors import ContextOverflow, ProviderError
from core.providers.connection.event_stream import is_midway
from core.providers.connection.failures import (
    Api,
    build_event_error,
    build_exception_error,
    build_status_error,
    extract_detail,
)
from core.providers.connection.refusals import parse_wait
from core.secrets import Secret

API = Api(label="OpenAI", base_url="https://x/v1", model="gpt-9", key="environment variable OPENAI_API_KEY")


def failure(status: int, body: object = None, **headers: str) -> ProviderError:
    return build_status_error(status, body, {name.replace("_", "-"): value for name, value in headers.items()}, API)


@pytest.mark.parametrize(
    ("status", "body", "code", "retryable"),
    [
        (400, {"error": {"message": "no"}}, "request_invalid", False),
        (401, {"error": {"message": "Incorrect API key"}}, "key_rejected", False),
        (403, "", "key_rejected", False),
        (402, "", "quota_exhausted", False),
        (
            404,
            {"error": {"message": "The model `gpt-9` does not exist", "code": "model_not_found"}},
            "model_unknown",
            False,
        ),
        (404, {"type": "error", "error": {"type": "not_found_error", "message": "model: x"}}, "model_unknown", False),
        (404, {"detail": "Not Found"}, "address_unknown", False),
        (408, "", "server_failed", True),
        (429, {"error": {"message": "Rate limit reached"}}, "rate_limited", True),
        (429, {"error": {"message": "x", "code": "insufficient_quota"}}, "quota_exhausted", False),
        (400, {"error": {"message": "Your credit balance is too low"}}, "quota_exhausted", False),
        (500, {"error": {"message": "oops"}}, "server_failed", True),
        (502, "<html><h1>Bad Gateway</h1></html>", "server_failed", True),
        (503, "", "overloaded", True),
        (529, {"error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded", True),
        (307, "", "request_invalid", False),
    ],
)
def test_v1_each_status_has_its_code(status, body, code, retryable):
    error = failure(status, body)
    assert (error.code, error.retryable) == (code, retryable)
    assert error.hint
    assert "\n" not in error.format_with_hint()


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (
            400,
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 200000 tokens.",
        ),
        (400, "prompt is too long: 210000 tokens > 200000 maximum"),
        (400, "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000"),
        (
            400,
            "the request exceeds the available context size. try increasing the context size or enable context shift",
        ),
        (413, "request_too_large"),
        (500, "Input is too long for this model: context size exceeded"),
        (422, "Requested token count exceeds the model's maximum context length of 32768 tokens."),
    ],
)
def test_v7_an_overflow_is_known_by_the_words_of_either_dialect(status, message):
    error = failure(status, {"error": {"message": message}})
    assert isinstance(error, ContextOverflow)
    assert error.code == "context_overflow"
    assert not error.retryable


def test_v7_an_overflow_is_known_by_its_code():
    assert isinstance(failure(400, {"error": {"message": "x", "code": "context_length_exceeded"}}), ContextOverflow)


def test_a_rejected_key_says_where_it_was_from_and_an_unknown_model_what_to_do():
    assert "OPENAI_API_KEY" in failure(401).hint
    assert "/model" in failure(404, {"error": {"message": "no such model"}}).hint
    assert "gpt-9" in failure(404, {"error": {"message": "no such model"}}).message


def test_v10_keys_and_markup_of_an_error_body_do_not_come_through():
    Secret("verysecretvalue-123")
    page = (
        "<!DOCTYPE html><html><head><title>502 Bad\n Gateway</title><style>a{}</style></head><body>verysecretvalue-123"
    )
    assert extract_detail(page) == "502 Bad Gateway"
    body = {"error": {"message": "Incorrect key verysecretvalue-123 \x1b[31m\n<b>x</b> " + "y" * 900}}
    text = failure(401, body).format_with_hint()
    assert "verysecretvalue" not in text
    assert "\x1b" not in text
    assert len(text) < 600


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"error": "plain"}, "plain"),
        ({"detail": [{"msg": "field required"}]}, "field required"),
        ({"message": "top"}, "top"),
        ({"object": "error", "message": "vllm says no"}, "vllm says no"),
        ([{"error": {"message": "in a list"}}], "in a list"),
        ("just text.", "just text"),
        (None, ""),
        ("<html><body><p>Sorry &amp; bye</p></body></html>", "Sorry & bye"),
    ],
)
def test_the_servers_words_are_found_in_every_shape(body, detail):
    assert extract_detail(body) == detail


def test_v1_retry_after_is_read_in_seconds_milliseconds_and_as_a_date(monkeypatch):
    monkeypatch.setattr("core.providers.connection.refusals.time.time", lambda: 1_700_000_000.0)
    assert parse_wait({"retry-after": "7"}) == 7
    assert parse_wait({"retry-after-ms": "250", "retry-after": "7"}) == 0.25
    assert parse_wait({"retry-after": email.utils.formatdate(1_700_000_030, usegmt=True)}) == 30
    assert parse_wait({"retry-after": "soon"}) is None
    assert parse_wait({}) is None
    assert failure(429, "", retry_after="3").retry_after == 3


def test_an_error_inside_a_stream_has_the_code_of_its_type():
    overloaded = build_event_error(
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, API
    )
    assert (overloaded.code, overloaded.retryable) == ("overloaded", True)
    assert build_event_error({"message": "x", "code": "rate_limit_exceeded"}, API).code == "rate_limited"
    assert build_event_error({"message": "x", "code": 503}, API).code == "overloaded"
    assert build_event_error("what", API).code == "server_failed"


def named(name: str, message: str = "", cause: Exception | None = None) -> Exception:
    error: Exception = type(name, (Exception,), {})(message)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (named("APIConnectionError", "", named("ConnectError", "[Errno -2] Name or service not known")), "unreachable"),
        (named("APIConnectionError", "", named("ConnectError", "[SSL: UNEXPECTED_EOF_WHILE_READING]")), "tls_failed"),
        (ConnectionRefusedError(111, "Connection refused"), "unreachable"),
        (named("APITimeoutError", "", named("ReadTimeout")), "stalled"),
        (named("APIConnectionError", "", named("RemoteProtocolError", "peer closed")), "stream_cut"),
        (ConnectionResetError(104, "Connection reset by peer"), "stream_cut"),
    ],
)
def test_v1_transport_errors_are_told_apart_and_can_be_tried_again(error, code):
    provider_error = build_exception_error(error, API)
    assert (provider_error.code, provider_error.retryable) == (code, True)
    assert provider_error.hint


def test_names_and_certificates_have_hints_of_their_own():
    dns = build_exception_error(named("ConnectError", "[Errno -2] Name or service not known"), API)
    tls = build_exception_error(named("ConnectError", "[SSL: CERTIFICATE_VERIFY_FAILED]"), API)
    assert "resolved" in dns.message
    assert "secure connection" in tls.message


def test_an_unforeseen_exception_becomes_one_of_ours():
    provider_error = build_exception_error(KeyError("boom"), API)
    assert provider_error.code == "provider_failed"
    assert "boom" in provider_error.message


@pytest.mark.parametrize(
    ("data", "midway"),
    [
        ('{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}', True),
        ('{"type":"content_block_stop","index":0}', False),
        ('{"type":"message_start","message":{"content":[]}}', False),
        ('{"type":"response.output_text.delta","delta":"x"}', True),
        ('{"type": "response.function_call_arguments.delta", "delta": "{"}', True),
        ('{"type":"response.reasoning_summary_text.delta","delta":"I think"}', False),
        ('{"type":"response.output_item.done","item":{"type":"function_call","arguments":"{\\"a\\":1}"}}', False),
        ('{"type":"response.created","response":{}}', False),
        ('{"choices":[{"delta":{"role":"assistant","content":""}}]}', False),
        ('{"choices":[{"delta":{"content":"x"}}]}', True),
        ('{"choices":[{"delta":{"reasoning_content":"x"}}]}', True),
        ('{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}', True),
        ('{"choices":[{"delta":{},"finish_reason":"stop"}]}', False),
    ],
)
def test_silence_is_told_from_thinking_by_the_event_before_it(data, midway):
    assert is_midway(data) is midway


@pytest.mark.parametrize(
    "text",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block. It is bound to a different conversation.",
        "messages.3.content.0: `thinking` blocks in the latest assistant message cannot be modified.",
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.",
        "The encrypted content for item rs_1 could not be verified. Reason: Encrypted content could not be decrypted.",
        "Corrupted thought signature.",
    ],
)
def test_reasoning_that_is_refused_has_a_code_of_its_own(text):
    assert failure(400, {"error": {"message": text}}).code == "reasoning_refused"
    assert failure(500, {"error": {"message": text}}).code != "reasoning_refused"


def test_reasoning_that_is_missing_is_not_refused():
    text = "Function call is missing a thought_signature in functionCall parts."
    assert failure(400, {"error": {"message": text}}).code == "request_invalid"
