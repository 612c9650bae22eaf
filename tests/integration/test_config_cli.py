"""`agent-tui config`: what a setting is, all that is wrong at once, and the file in an editor."""

from __future__ import annotations

import io
import json

import pytest

from core.cli.config import ConfigArguments, parse, run
from core.config.manual import find_page, read_meanings, read_page, render_page
from core.config.schema import generalize_key, list_settings
from core.errors import ConfigError
from core.exits import ExitCode
from tests.support.trust import trust
from tui.screens.controllers.editor import find_editor_command
from tui.settings_check import check_interface


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    return root


@pytest.fixture
def user_file(tmp_path, monkeypatch):
    folder = tmp_path / "config"
    folder.mkdir()
    monkeypatch.setenv("AGENT_TUI_CONFIG_DIR", str(folder))
    return folder / "config.toml"


def call(project, *words: str) -> int:
    return run(
        parse([*words, "--dir", str(project)]),
        check_interface=lambda ui: check_interface(ui.theme, ui.keymap),
        find_editor=find_editor_command,
    )


def test_a_setting_is_told_with_its_value_place_meaning_valid_values_and_default(project, user_file, capsys):
    user_file.write_text("[limits]\nmax_steps = 50\n")
    assert call(project, "explain", "limits.max_steps") == ExitCode.DONE
    output = capsys.readouterr().out
    assert output.splitlines()[0] == "limits.max_steps = 50"
    for words in (f"{user_file}, line 2", "model calls in one turn", "a whole number", "default 100"):
        assert words in " ".join(output.split())


def test_the_project_is_named_where_its_file_is_stricter(project, user_file, capsys):
    user_file.write_text("[limits]\nmax_steps = 50\n")
    (project / ".agent-tui").mkdir()
    (project / ".agent-tui/config.toml").write_text("\n[limits]\nmax_steps = 5\nmax_cost = 1.0\n")
    call(project, "explain", "limits")
    assert f"max_steps   50   ({user_file}, line 2)" in capsys.readouterr().out
    trust(project)
    call(project, "explain", "limits", "--json")
    rows = {row["key"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["limits.max_steps"]["source"] == ".agent-tui/config.toml, line 3"
    assert rows["limits.max_steps"]["value"] == 5
    assert rows["limits.max_tokens"]["source"] == ""


def test_tables_with_names_of_the_user_are_told_and_keys_in_them_are_not(project, user_file, capsys):
    user_file.write_text(
        '[models."openai/gpt-4.1"]\nedits = "patch"\n[providers.work]\nbase_url = "https://me:pass-word@x/v1"\n'
        'headers = { x = "top secret" }\n'
    )
    call(project, "explain")
    output = capsys.readouterr().out
    assert "models.openai/gpt-4.1.edits" in output
    assert "secret" not in output
    assert "pass-word" not in output
    for key in ('models."openai/gpt-4.1".edits', "models.openai/gpt-4.1.edits"):
        call(project, "explain", key)
        assert '= "patch"' in capsys.readouterr().out


def test_a_table_that_could_be_made_is_told_with_what_can_stand_in_it(project, user_file, capsys):
    call(project, "explain", "modes.ask.tools.grep")
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        f"modes.ask.tools.grep.{key}" for key in ("enabled", "scope", "allowed_paths", "require_approval")
    ]


def test_a_setting_that_there_is_not_is_refused_with_the_nearest(project, user_file):
    with pytest.raises(ConfigError) as caught:
        call(project, "explain", "limits.max_step")
    assert "limits.max_steps" in caught.value.hint


def test_every_setting_has_a_meaning_in_the_manual():
    assert [
        setting.dotted for setting in list_settings() if not read_meanings().get(generalize_key(setting.path))
    ] == []


def test_mistakes_of_all_kinds_are_told_at_once_with_their_lines(project, user_file, capsys):
    user_file.write_text(
        'model = "opnai/x"\nmode = "yes"\n[providers.work]\nkind = "opnai"\nbase_url = "httpx://x"\n'
        '[permissions]\nallow = ["Fly(high)"]\n[ui]\ntheme = "nrd"\n[ui.keymap]\n"review.accept" = "r"\n'
        '[tools.grpe]\nenabled = false\n[lsp.mine]\ncommand = ["there-is-no-such-server"]\n'
    )
    (user_file.parent / "mcp.json").write_text('{"mcpServers": {"x": {"comand": "y"}}}')
    (user_file.parent / "hooks.json").write_text('{"version": 1, "hooks": {"noSuchEvent": [{"command": "true"}]}}')
    assert call(project, "check") == ExitCode.FAILED
    output = capsys.readouterr().out
    for words in (
        f"error: {user_file}, line 2: `mode`",
        "line 4: `providers.work.kind`: invalid enum value 'opnai'.\n  Valid: openai, anthropic.",
        "line 7: `permissions.allow`: `Fly(high)` is not a permission rule",
        f"warning: {user_file}, line 1: `model`: there is no provider 'opnai'",
        "line 5: `providers.work.base_url`",
        "line 9: `ui.theme`: no theme 'nrd'",
        "line 11: `ui.keymap.review.accept`: r is also the key of review.reject",
        "`tools.grpe` has no effect",
        "line 15: `lsp.mine.command`: there is no program",
        "MCP server x",
        "noSuchEvent",
        "you have not trusted it",
    ):
        assert words in output


def test_a_configuration_without_a_mistake_is_told_so(project, user_file, capsys):
    user_file.write_text('model = "openai/x"\n[ui]\ntheme = "nord"\n[routes.embed]\nmodel = "local/minilm"\n')
    trust(project)
    assert call(project, "check") == ExitCode.DONE
    assert capsys.readouterr().out == "No problems.\n"


def test_the_project_s_own_file_is_checked_once_it_is_trusted(project, user_file, capsys):
    (project / ".agent-tui").mkdir()
    (project / ".agent-tui/config.toml").write_text('model = "openai/x"\n')
    trust(project)
    assert call(project, "check") == ExitCode.DONE
    assert "`model` was ignored" in capsys.readouterr().out
    (project / ".agent-tui/config.toml").write_text("[limits]\nmax_stps = 1\n")
    call(project, "check")
    assert ".agent-tui/config.toml is not loaded: it has changed since you trusted it." in capsys.readouterr().out


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def edit(tmp_path, monkeypatch, script: str) -> None:
    editor = tmp_path / "editor"
    editor.write_text(f"#!/bin/sh\n{script}\n")
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))


def test_what_was_edited_is_saved_when_nothing_is_wrong_with_it(project, user_file, tmp_path, monkeypatch, capsys):
    edit(tmp_path, monkeypatch, "echo 'mode = \"ask\"' >> $1")
    assert call(project, "edit") == ExitCode.DONE
    assert user_file.read_text().endswith('mode = "ask"\n')
    assert "Saved" in capsys.readouterr().out


def test_a_file_with_a_mistake_is_offered_to_be_edited_again(project, user_file, tmp_path, monkeypatch, capsys):
    edit(
        tmp_path,
        monkeypatch,
        'if grep -q yes "$1"; then echo "mode = \'ask\'" > "$1"; else echo "mode = \'yes\'" > "$1"; fi',
    )
    monkeypatch.setattr("sys.stdin", Terminal("e\n"))
    assert call(project, "edit") == ExitCode.DONE
    assert user_file.read_text() == "mode = 'ask'\n"
    assert f"error: {user_file}, line 1" in capsys.readouterr().out


@pytest.mark.parametrize(("typed", "kept"), [("q\n", ""), ("s\n", "mode = 'yes'\n")])
def test_a_file_with_a_mistake_is_saved_only_if_that_is_said(
    project, user_file, tmp_path, monkeypatch, capsys, typed, kept
):
    edit(tmp_path, monkeypatch, "echo \"mode = 'yes'\" > $1")
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    assert call(project, "edit") == ExitCode.FAILED
    assert (user_file.read_text() if user_file.exists() else "") == kept
    assert "mode" in capsys.readouterr().out


def test_without_a_terminal_a_file_with_a_mistake_is_not_saved(project, user_file, tmp_path, monkeypatch, capsys):
    edit(tmp_path, monkeypatch, "echo \"mode = 'yes'\" > $1")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert call(project, "edit") == ExitCode.FAILED
    assert not user_file.exists()
    assert "Nothing was saved" in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["fly"], ["check", "limits"], ["edit", "--json"]])
def test_words_that_make_no_sense_are_refused(words, capsys):
    with pytest.raises(SystemExit) as caught:
        parse(words)
    assert caught.value.code == ExitCode.USAGE
    assert "See agent-tui config --help" in capsys.readouterr().err


def test_the_words_are_understood(project, monkeypatch):
    monkeypatch.chdir(project)
    assert parse(["explain", "ui", "--json"]) == ConfigArguments(
        directory=project, action="explain", key="ui", json=True
    )


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("review", "review"),
        ("/review", "review"),
        ("key", "keys"),
        ("http", "editors-and-http"),
        ("settings", "settings-and-trouble"),
        ("trust", "permissions"),
        ("Conflicts", "review"),
        ("nothing of it", ""),
    ],
)
def test_a_page_of_the_manual_is_found_by_its_name_or_a_heading(words, page):
    assert find_page(words) == page


def test_a_page_has_no_pictures_and_tells_how_the_others_are_opened():
    text = render_page("review")
    assert text.startswith("# Review")
    assert "`/help keys`" in text
    assert ".svg" not in text
    assert "(keys.md)" not in text


@pytest.mark.parametrize("name", ["keys", "models"])
def test_a_page_has_no_comments_for_those_who_write_it(name):
    assert "<!--" in read_page(name)
    assert "<!--" not in render_page(name)
