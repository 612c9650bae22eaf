from __future__ import annotations

import json
import stat
import sys
import threading

import pytest

from core.errors import ConfigError, ProviderError, StateError
from core.providers.connection import keys
from core.providers.connection.endpoint import Endpoint
from core.providers.connection.keys import KEYRING, describe_storage, find_key, store_key
from core.secrets import Secret, redact
from core.user_dirs import get_state_dir

URL = "https://api.openai.com/v1"
KEY = "sk-stored-key-0123456789"


class Ring:
    """A keyring backend that is there."""

    def __init__(self):
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service, name):
        return self.kept.get((service, name))

    def set_password(self, service, name, value):
        self.kept[service, name] = value


@pytest.fixture
def ring(monkeypatch):
    fake_ring = Ring()
    monkeypatch.setattr("keyring.get_password", fake_ring.get_password)
    monkeypatch.setattr("keyring.set_password", fake_ring.set_password)
    return fake_ring


@pytest.fixture(autouse=True)
def keyring_on():
    yield
    keys._keyring_disabled.clear()


def find(provider="openai", base_url=URL, **rest):
    secret, source = find_key(provider, base_url=base_url, **rest)
    return (secret.reveal() if secret else None), source


def test_nothing_is_found_where_nothing_is():
    assert find(variable="OPENAI_API_KEY") == (None, "")


def test_the_environment_comes_first(monkeypatch, ring):
    store_key("openai", KEY, base_url=URL)
    monkeypatch.setenv("OPENAI_API_KEY", "  from-the-environment ")
    assert find(variable="OPENAI_API_KEY") == ("from-the-environment", "environment variable OPENAI_API_KEY")
    monkeypatch.setenv("OPENAI_API_KEY", " ")
    assert find(variable="OPENAI_API_KEY") == (KEY, KEYRING)


def test_a_keyring_that_works_is_used_and_our_file_is_not(ring):
    assert store_key("openai", KEY, base_url=URL) == KEYRING
    assert find() == (KEY, KEYRING)
    assert not (get_state_dir() / "keys.json").exists()


def test_k4_without_a_keyring_the_key_is_in_a_file_for_the_user_alone():
    source = store_key("openai", f" {KEY}\n", base_url=URL)
    path = get_state_dir() / "keys.json"
    assert source == str(path)
    assert find() == (KEY, str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == ["keys.json"]


def test_a_key_moves_from_the_file_to_a_keyring_that_came_later(request):
    store_key("openai", KEY, base_url=URL)
    store_key("anthropic", "sk-ant-other-key", base_url="https://api.anthropic.com")
    request.getfixturevalue("ring")
    assert store_key("openai", KEY, base_url=URL) == KEYRING
    assert list(json.loads((get_state_dir() / "keys.json").read_text())) == ["anthropic https://api.anthropic.com"]


@pytest.mark.parametrize(
    "other", ["https://evil.example/v1", "http://api.openai.com/v1", "https://api.openai.com:8443/v1"]
)
def test_k9_a_stored_key_is_not_given_to_another_host(other):
    store_key("openai", KEY, base_url=URL)
    assert find(base_url=other) == (None, "")
    assert find("anthropic") == (None, "")
    assert find(base_url="https://API.openai.com/other/path")[0] == KEY


def test_for_a_server_on_this_machine_no_keyring_is_asked(ring):
    local = "http://127.0.0.1:8000/v1"
    source = store_key("vllm", KEY, base_url=local)
    assert source.endswith("keys.json")
    assert find("vllm", base_url=local) == (KEY, source)
    assert ring.kept == {}


def test_a_broken_keyring_is_passed_over(monkeypatch):
    def broken(*_):
        raise OSError("no bus")

    monkeypatch.setattr("keyring.get_password", broken)
    monkeypatch.setattr("keyring.set_password", broken)
    store_key("openai", KEY, base_url=URL)
    assert find()[0] == KEY


def test_without_the_package_the_file_is_used_and_the_installation_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "keyring", None)
    path = get_state_dir() / "keys.json"
    assert store_key("openai", KEY, base_url=URL) == str(path)
    assert find() == (KEY, str(path))
    assert describe_storage().startswith(f"{path} (0600); for the system's keyring: ")
    assert describe_storage().endswith("[keyring]'")
    endpoint = Endpoint(id="groq", label="Groq", base_url=URL, variable="GROQ_API_KEY", needs_key=True)
    with pytest.raises(ProviderError) as error:
        endpoint.load_key()
    assert "[keyring]'" in error.value.hint


def test_with_the_package_both_places_are_named():
    assert describe_storage() == f"the system's keyring, or {get_state_dir() / 'keys.json'} (0600) if that fails"


def test_a_keyring_that_hangs_is_given_up_and_not_asked_again(monkeypatch):
    asked = []
    end = threading.Event()

    def hanging(*_):
        asked.append(1)
        end.wait(10)

    monkeypatch.setattr("keyring.get_password", hanging)
    monkeypatch.setattr(keys, "KEYRING_SECONDS", 0.05)
    assert find(seconds=0.05) == (None, "")
    assert find(seconds=0.05) == (None, "")
    end.set()
    assert asked == [1]


@pytest.mark.parametrize("bad", ["", "two words", "ключ-ключ", "abc", "sk-\x1b[31mxxxxxx"])
def test_what_can_not_be_a_key_is_refused(bad):
    with pytest.raises(ConfigError, match="key"):
        store_key("openai", bad, base_url=URL)


def test_a_damaged_file_and_a_link_are_refused_by_name(tmp_path):
    path = get_state_dir() / "keys.json"
    path.parent.mkdir(parents=True)
    path.write_text("not json")
    with pytest.raises(ConfigError, match=r"keys\.json is damaged"):
        find()
    path.unlink()
    (tmp_path / "elsewhere").write_text("{}")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=r"keys\.json"):
        find()


def test_k4_permissions_that_others_could_read_with_are_taken_back():
    store_key("openai", KEY, base_url=URL)
    path = get_state_dir() / "keys.json"
    path.chmod(0o644)
    assert find()[0] == KEY
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_directory_that_can_not_be_written_is_explained(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AGENT_TUI_STATE_DIR", str(tmp_path / "file" / "below"))
    with pytest.raises((StateError, ConfigError)) as caught:
        store_key("openai", KEY, base_url=URL)
    assert KEY not in caught.value.format_with_hint()


def test_k2_whatever_was_found_is_known_to_the_redactor():
    store_key("openai", "an-unusual-key-value", base_url=URL)
    find()
    assert "an-unusual-key-value" not in redact("body: an-unusual-key-value")
    assert find_key("openai", base_url=URL)[0] == Secret("an-unusual-key-value")
