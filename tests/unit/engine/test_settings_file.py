from __future__ import annotations

import pytest

from core.config.loading import load_settings
from core.engine.settings_file import keep_setting, save_settings
from core.errors import ConfigError
from core.protocol.commands import SettingKeep
from core.user_dirs import get_config_dir


@pytest.fixture
def file():
    get_config_dir().mkdir(parents=True, exist_ok=True)
    return get_config_dir() / "config.toml"


def test_what_is_remembered_is_loaded_again_and_private(file):
    save_settings(model="openai/x", provider="openai", base_url="http://127.0.0.1:9/v1")
    settings = load_settings()
    assert (settings.model, settings.providers["openai"].base_url) == ("openai/x", "http://127.0.0.1:9/v1")
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_file_with_a_fault_in_it_is_left_as_it_is(file):
    file.write_text("model = [")
    with pytest.raises(ConfigError):
        save_settings(model="openai/x")
    with pytest.raises(ConfigError):
        keep_setting(SettingKeep(key="privacy", text="true"))
    assert file.read_text() == "model = ["


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("privacy", "true", True),
        ("limits.max_steps", "7", 7),
        ("limits.max_cost", "2", 2.0),
        ("model", "openai/x", "openai/x"),
        ("model", "", ""),
        ("commands.policy", "confirm", "confirm"),
        ("commands.checks", '["bin/verify", "é"]', ("bin/verify", "é")),
        ("ui.colors", "16", "16"),
        ("web.search.provider", "brave", "brave"),
        ("permissions.deny", "['Read(**/.env)']", ("Read(**/.env)",)),
    ],
)
def test_a_setting_of_each_kind_is_kept_and_goes_back_to_its_default(file, key, text, value):
    file.write_text("# mine\n[lsp.pylsp]\nenabled = false\n")
    default = read(key)
    keep_setting(SettingKeep(key=key, text=text))
    assert read(key) == value
    keep_setting(SettingKeep(key=key))
    assert read(key) == default
    assert (
        file.read_text().replace(f"[{key.rpartition('.')[0]}]\n", "").strip() == "# mine\n[lsp.pylsp]\nenabled = false"
    )


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("limits.max_steps", "many"),
        ("limits.max_steps", "-1"),
        ("limits.max_steps", ""),
        ("limits.max_steps", "1\nmodel = 2"),
        ("context.compact_at", "3"),
        ("privacy", "yes"),
        ("commands.policy", "often"),
        ("commands.checks", "pytest"),
        ("permissions.allow", '["Shel(x)"]'),
        ("ui.theme", "no such name"),
        ("ui.keymap", "{}"),
        ("models.NAME.edits", "lazy"),
        ("nothing.of", "1"),
    ],
)
def test_what_the_loader_would_refuse_is_refused_and_not_written(file, key, text):
    with pytest.raises(ConfigError):
        keep_setting(SettingKeep(key=key, text=text))
    assert not file.exists()


def read(key):
    value = load_settings()
    for name in key.split("."):
        value = getattr(value, name)
    return value
