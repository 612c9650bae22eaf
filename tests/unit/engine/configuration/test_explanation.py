from __future__ import annotations

import pytest

from core.config.loading import load_settings
from core.config.settings import Settings
from core.engine.configuration.explanation import CommandLineValue, SettingSources, explain_settings, list_tables
from core.user_dirs import get_config_dir

OWN = (
    'model = "a/b"\n[limits]\nmax_steps = 50\n[permissions]\ndeny = ["Read(a)"]\n[providers.openai]\nkind = "openai"\n'
)


@pytest.fixture
def root(tmp_path):
    get_config_dir().mkdir(parents=True, exist_ok=True)
    (get_config_dir() / "config.toml").write_text(OWN)
    (tmp_path / ".agent-tui").mkdir()
    theirs = "[limits]\nmax_steps = 5\n[permissions]\ndeny = ['Read(b)']\nask = ['Shell(x)']\n"
    (tmp_path / ".agent-tui" / "config.toml").write_text(theirs)
    return tmp_path


def explain(root, key, **commanded):
    names = {name.replace("__", "."): CommandLineValue("--it", value) for name, value in commanded.items()}
    (row,) = explain_settings(load_settings(root), SettingSources(root, names), key)
    return row


def test_a_value_has_the_one_that_set_it_and_what_the_users_own_file_says(root):
    rows = {key: explain(root, key) for key in ("model", "limits.max_steps", "limits.max_cost", "permissions.ask")}
    assert {key: (row.origin, row.value, row.own) for key, row in rows.items()} == {
        "model": ("user", "a/b", "a/b"),
        "limits.max_steps": ("project", 5, 50),
        "limits.max_cost": ("default", 0.0, None),
        "permissions.ask": ("project", ["Shell(x)"], None),
    }
    assert rows["limits.max_steps"].source == ".agent-tui/config.toml, line 2"


def test_lists_of_both_add_up_and_the_stronger_one_is_named(root):
    row = explain(root, "permissions.deny")
    assert (row.origin, row.value, row.own) == ("project", ["Read(a)", "Read(b)"], ["Read(a)"])


def test_the_command_line_wins(root):
    row = explain(root, "model", model="x/y")
    assert (row.origin, row.source, row.value, row.own) == ("command line", "--it on the command line", "x/y", "a/b")
    assert explain(root, "limits.max_steps", limits__max_steps=5).origin == "command line"


@pytest.mark.parametrize(
    ("theirs", "key", "origin"),
    [
        ("[limits]\nmax_steps = 50\n", "limits.max_steps", "user"),
        ("[limits]\nmax_steps = 900\n", "limits.max_steps", "user"),
        ("[ui]\nplain = false\n", "ui.plain", "default"),
        ("privacy = false\n", "privacy", "default"),
        ("model = 'a/b'\n", "model", "user"),
        ("[web]\nenabled = true\n", "web.enabled", "default"),
        ("[web]\nenabled = false\n", "web.enabled", "project"),
        ("[permissions]\ndeny = ['Read(a)']\n", "permissions.deny", "user"),
        ("[tools.grep]\nenabled = false\n", "tools.grep.enabled", "project"),
        ("[tools.grep]\nenabled = true\n", "tools.grep.enabled", "default"),
        ("[plans]\ndirectory = 'notes'\n", "plans.directory", "project"),
        ("[plans]\ndirectory = '/elsewhere'\n", "plans.directory", "default"),
    ],
)
def test_a_project_is_a_source_only_where_it_is_heard(root, theirs, key, origin):
    (root / ".agent-tui" / "config.toml").write_text(theirs)
    assert explain(root, key).origin == origin


def test_what_the_command_line_adds_to_a_list_is_in_it_once(root):
    row = explain(root, "permissions.deny", permissions__deny=("Read(a)",))
    assert (row.origin, row.value) == ("command line", ["Read(a)", "Read(b)"])


@pytest.mark.parametrize("name", ["database", "blobs"])
def test_the_teams_addresses_of_the_environment_win_without_their_passwords(root, monkeypatch, name):
    monkeypatch.setenv(f"AGENT_TUI_{name.upper()}", "postgresql://agents:hunter2@db/agents")
    row = explain(root, f"background.{name}")
    assert (row.origin, row.source) == ("environment", f"AGENT_TUI_{name.upper()}")
    assert "hunter2" not in str(row)


def test_what_a_session_begins_with_says_when_a_change_holds(root):
    assert explain(root, "model").begins == explain(root, "mode").begins == "in the next session"
    assert explain(root, "limits.max_steps").begins == ""


def test_an_address_of_the_environment_wins(root, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    (get_config_dir() / "config.toml").write_text('[providers.openai]\nbase_url = "http://x"\n')
    row = explain(root, "providers.openai.base_url")
    assert (row.origin, row.source, row.value) == ("environment", "OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert row.own == "http://x"


@pytest.mark.parametrize(
    ("key", "kind", "choices"),
    [
        ("privacy", "flag", ()),
        ("commands.policy", "choice", ("confirm", "auto", "human")),
        ("limits.max_cost", "number", ()),
        ("model", "text", ()),
        ("commands.checks", "list", ()),
        ("ui.keymap", "table", ()),
    ],
)
def test_a_setting_has_its_kind_and_a_table_says_where_it_is_changed(root, key, kind, choices):
    row = explain(root, key)
    assert (row.kind, row.choices) == (kind, choices)
    assert ("agent-tui config edit" in row.elsewhere) == (kind == "table")


def test_what_has_a_place_of_its_own_is_listed_with_it(root):
    rows = {row.key: row for row in list_tables(load_settings(root))}
    assert {"providers", "models", "lsp", "agent_servers", "tools", "rules", "hooks", "mcp"} <= rows.keys()
    assert rows["providers"].value == ["openai"]
    assert all(row.elsewhere and row.meaning for row in rows.values())
    assert next(list_tables(Settings())).value is None
