from __future__ import annotations

import pickle

import pytest

from core.secrets import MASK, Secret, mask_secrets, redact

KEY = "sk-proj-abcDEF123456_planted-key-7890"


def test_a_secret_says_nothing_about_itself():
    secret = Secret(KEY)
    texts = [repr(secret), str(secret), f"{secret}", f"{secret!r:>40}", "%s" % secret, repr({"key": secret})]  # noqa: UP031
    assert not any(KEY in text for text in texts)
    assert secret.reveal() == KEY
    with pytest.raises(TypeError):
        pickle.dumps(secret)


def test_k2_a_known_value_is_taken_out_wherever_it_stands():
    Secret("plainvaluewithoutprefix42")
    text = 'GET /?token=plainvaluewithoutprefix42 {"x":"plainvaluewithoutprefix42"}'
    assert "plainvaluewithoutprefix42" not in redact(text)
    assert redact(text).count(MASK) == 2


def test_k2_a_key_is_masked_from_the_moment_it_is_known():
    text = "first-planted-key and later-planted-key"
    Secret("first-planted-key")
    assert mask_secrets(text) == f"{MASK} and later-planted-key"
    Secret("later-planted-key")
    assert mask_secrets(text) == f"{MASK} and {MASK}"


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-abcd1234efgh5678ijkl.",
        "Incorrect API key provided: sk-abcd****ijkl.",
        "x-api-key sk-ant-api03-AAAAbbbbCCCCdddd-1234_5678",
        "Authorization: Bearer abcd1234efgh5678ijkl",
        '{"api_key": "abcd1234efgh5678ijkl"}',
        "https://user:abcd1234efgh5678ijkl@host/v1",
        "https://host/v1?api-key=abcd1234efgh5678ijkl&x=1",
    ],
)
def test_k2_what_looks_like_a_key_is_masked(text):
    masked = redact(text)
    assert MASK in masked
    assert not any(part in masked for part in ("efgh5678", "ijkl", "CCCCdddd"))


def test_ordinary_text_stays_as_it_is():
    text = "The task-runner asks for a risk-free disk-based sk- prefix; see tests/test_api.py:12."
    assert redact(text) == text
    Secret("short")
    assert redact("a short text") == "a short text"
