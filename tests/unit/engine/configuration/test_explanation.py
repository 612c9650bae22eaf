from __future__ import annotations

import pytest

from core.config.loading import load_settings
from core.config.settings import Settings
from core.engine.configuration.explanation import SettingSources, explain_settings, list_tables
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
    names = {name.replace("__", "."): value for name, value in commanded.items()}
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
    assert (row.origin, row.source, row.value, row.own) == ("command line", "the command line", "x/y", "a/b")
    assert explain(root, "limits.max_steps", limits__max_steps=5).origin == "command line"


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
