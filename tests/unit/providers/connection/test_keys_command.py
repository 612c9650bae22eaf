from __future__ import annotations

import pytest

from core.config.settings import ProviderSettings, Settings
from core.errors import ProviderError
from core.providers.connection import keys
from core.providers.connection.keys import KEY_COMMAND
from core.providers.registry import build_endpoint
from core.secrets import redact


@pytest.fixture(autouse=True)
def nothing_kept():
    yield
    keys._command_keys.clear()


def key_of(command: str) -> str:
    return keys.run_key_command(command).reveal()


def test_the_first_line_that_a_command_prints_is_the_key_and_a_secret(monkeypatch):
    command = "printf 'a-key-of-a-command\\nuser: me\\n'"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-another-0123456789")
    endpoint = build_endpoint("openai", Settings(providers={"openai": ProviderSettings(key_command=command)}))
    secret, source = endpoint.load_key()
    assert (secret.reveal(), source) == ("a-key-of-a-command", KEY_COMMAND)
    assert "a-key-of-a-command" not in redact("body: a-key-of-a-command")


def test_a_command_is_run_once_until_its_key_is_refused(tmp_path):
    command = f"echo x >> {tmp_path / 'runs'}; echo key-$(wc -l < {tmp_path / 'runs'})-0123456789"
    assert key_of(command) == key_of(command) == "key-1-0123456789"
    keys.forget_key(command)
    assert key_of(command) == "key-2-0123456789"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("echo locked >&2; exit 3", "ended with 3: locked."),
        ("no-such-program-here", "ended with 127"),
        ("true", "printed no key"),
        ("echo two words", "printed no key"),
        ("printf 'кл'", "printed no key"),
    ],
)
def test_a_command_that_gives_no_key_says_why(command, words):
    with pytest.raises(ProviderError) as caught:
        key_of(command)
    assert words in caught.value.message
    assert "key_command" in caught.value.hint


def test_what_a_command_prints_stands_in_no_error():
    with pytest.raises(ProviderError) as caught:
        key_of("echo sk-planted-0123456789; echo sk-planted-0123456789 >&2; exit 1")
    assert "sk-planted" not in caught.value.format_with_hint()


def test_a_command_that_never_ends_is_given_up():
    with pytest.raises(ProviderError, match=r"took longer than 0\.05 s"):
        keys.run_key_command("read x < /dev/zero; while true; do :; done", seconds=0.05)


def test_a_command_has_no_input_and_no_terminal():
    assert key_of("if read x || (: < /dev/tty) 2>/dev/null; then echo asked-0123456; else echo alone-0123456; fi") == (
        "alone-0123456"
    )
