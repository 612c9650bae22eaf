from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from core.config.loading import load_settings
from core.engine.configuration.settings_file import _change_file, save_setting, save_settings
from core.errors import ConfigError, StateError
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
        save_setting(SettingKeep(key="privacy", text="true"))
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
    save_setting(SettingKeep(key=key, text=text))
    assert read(key) == value
    save_setting(SettingKeep(key=key))
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
        save_setting(SettingKeep(key=key, text=text))
    assert not file.exists()


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_the_file_keeps_its_mode(file, mode):
    file.write_text("")
    file.chmod(mode)
    save_setting(SettingKeep(key="privacy", text="true"))
    assert file.stat().st_mode & 0o777 == mode


def test_a_link_stays_a_link_and_what_it_leads_to_is_changed(file, tmp_path):
    target = tmp_path / "dotfiles.toml"
    target.write_text("# mine\n")
    file.symlink_to(target)
    save_setting(SettingKeep(key="privacy", text="true"))
    assert file.is_symlink()
    assert target.read_text() == "privacy = true\n\n# mine\n"


def test_a_link_that_leads_nowhere_makes_its_file_and_one_into_nothing_is_refused(file, tmp_path):
    file.symlink_to(tmp_path / "new.toml")
    save_setting(SettingKeep(key="privacy", text="true"))
    assert (tmp_path / "new.toml").read_text() == "privacy = true\n"
    file.unlink()
    file.symlink_to(tmp_path / "none" / "new.toml")
    with pytest.raises(StateError, match="can't be written: No such file"):
        save_setting(SettingKeep(key="privacy", text="true"))


def test_a_file_that_its_user_made_read_only_is_left_alone(file):
    file.write_text("# mine\n")
    file.chmod(0o444)
    with pytest.raises(StateError, match="it is read-only"):
        save_setting(SettingKeep(key="privacy", text="true"))
    assert file.read_text() == "# mine\n"


def test_a_directory_that_cannot_be_made_is_told(file):
    file.parent.rmdir()
    file.parent.write_text("no directory")
    with pytest.raises(StateError, match="can't be written: Not a directory"):
        save_setting(SettingKeep(key="privacy", text="true"))
    file.parent.unlink()


def test_changes_of_several_at_once_are_all_kept(file):
    numbers = range(12)
    with ThreadPoolExecutor(len(numbers)) as pool:
        keys = [f"tools.tool{number}.enabled" for number in numbers]
        for waited in [pool.submit(save_setting, SettingKeep(key=key, text="false")) for key in keys]:
            waited.result()
    assert set(load_settings().tools) == {f"tool{number}" for number in numbers}


def test_what_an_editor_saves_meanwhile_is_kept(file):
    file.write_text("# before\n")

    def change(text):
        if "meanwhile" not in text:
            file.write_text("# meanwhile\n")
        return f"{text}privacy = true\n"

    _change_file(change)
    assert file.read_text() == "# meanwhile\nprivacy = true\n"


def test_a_file_that_never_rests_is_left_to_its_writer(file):
    counter = count()

    def change(text):
        file.write_text(f"# {next(counter)}\n")
        return f"{text}privacy = true\n"

    with pytest.raises(StateError, match="is changing"):
        _change_file(change)
    assert file.read_text() == "# 2\n"


def read(key):
    value = load_settings()
    for name in key.split("."):
        value = getattr(value, name)
    return value
