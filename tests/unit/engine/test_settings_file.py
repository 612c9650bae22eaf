from __future__ import annotations

import tomllib

import pytest

from core.config.loading import load_settings
from core.engine.settings_file import save_settings, set_key
from core.errors import ConfigError
from core.user_dirs import get_config_dir

BEFORE = '# mine\ntheme = 1\n\n[providers.openai]  # here\nheaders = {}\nbase_url = "old"\n\n[limits]\nmax_steps = 3\n'


def test_a_key_is_replaced_and_every_other_line_stays():
    after = set_key(BEFORE, "providers.openai", "base_url", 'http://x/"v1"')
    assert tomllib.loads(after)["providers"]["openai"]["base_url"] == 'http://x/"v1"'
    assert [line for line in after.splitlines() if "base_url" not in line] == [
        line for line in BEFORE.splitlines() if "base_url" not in line
    ]


def test_a_new_key_lands_in_its_table_or_in_front_of_all():
    assert tomllib.loads(set_key(BEFORE, "", "model", "a/b"))["model"] == "a/b"
    assert tomllib.loads(set_key(BEFORE, "limits", "note", "x"))["limits"] == {"note": "x", "max_steps": 3}
    assert tomllib.loads(set_key("", "providers.y", "base_url", "u")) == {"providers": {"y": {"base_url": "u"}}}


def test_what_is_remembered_is_loaded_again_and_private():
    save_settings(model="openai/x", provider="openai", base_url="http://127.0.0.1:9/v1")
    settings = load_settings()
    assert (settings.model, settings.providers["openai"].base_url) == ("openai/x", "http://127.0.0.1:9/v1")
    assert (get_config_dir() / "config.toml").stat().st_mode & 0o777 == 0o600


def test_a_file_with_a_fault_in_it_is_left_as_it_is():
    get_config_dir().mkdir(parents=True, exist_ok=True)
    path = get_config_dir() / "config.toml"
    path.write_text("model = [")
    with pytest.raises(ConfigError):
        save_settings(model="openai/x")
    assert path.read_text() == "model = ["
