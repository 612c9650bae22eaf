"""Settings: errors that say where, and a project's file that can only narrow."""

from __future__ import annotations

import os

import pytest

from core.config.loading import load_settings, load_with_notices
from core.config.settings import CommandSettings, Settings, ToolSettings, TurnLimits
from core.errors import ConfigError
from core.modes import Mode
from core.user_dirs import get_config_dir, get_state_dir


@pytest.fixture
def user_file(tmp_path, monkeypatch):
    directory = tmp_path / "config"
    directory.mkdir()
    monkeypatch.setenv("AGENT_TUI_CONFIG_DIR", str(directory))
    return directory / "config.toml"


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    (root / ".agent-tui").mkdir(parents=True)
    return root


def test_without_files_the_defaults_hold(user_file, project):
    assert load_settings(project) == Settings()


def test_everything_can_be_set(user_file):
    user_file.write_text(
        'model = "openai/a"\nsmall_model = "openai/b"\nmode = "ask"\n[limits]\nmax_steps = 5\nmax_cost = 1.5\n'
        'max_tokens = 9\n[commands]\npolicy = "yolo"\n[edits]\npolicy = "auto"\n[ui]\ntheme = "nord"\n'
        '[ui.keymap]\n"app.quit" = "ctrl+x"\n[providers.local]\nbase_url = "http://localhost:1/v1"\n'
        'api_key_env = "K"\nheaders = { A = "b" }\n[context]\ncompact_at = 0.5\nwindow = 9000\n'
    )
    settings = load_settings()
    assert (settings.model, settings.mode, settings.limits.max_steps) == ("openai/a", Mode.ASK, 5)
    assert settings.commands.policy == "auto"
    assert settings.providers["local"].headers == {"A": "b"}
    assert settings.ui.keymap == {"app.quit": "ctrl+x"}
    assert settings.context.window == 9000


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("[limits]\nmax_stps = 3\n", 2, ("limits.max_stps", "unknown key", "max_steps")),
        ("colour = 1\n", 1, ("colour", "unknown key", "model")),
        ('model = "a"\n\n[limits]\nmax_steps = "many"\n', 4, ("limits.max_steps", "whole number")),
        ("[limits]\nmax_cost = -1\n", 2, ("limits.max_cost", "US dollars")),
        ('mode = "yes"\n', 1, ("mode", "agent, plan, ask, debug")),
        ('[commands]\npolicy = "never"\n', 2, ("commands.policy", "confirm")),
        ("[context]\ncompact_at = 3\n", 2, ("context.compact_at", "1000")),
        ('[routes.chat]\nmodle = "a/b"\n', 2, ("routes.chat.modle", "unknown key", "fallback")),
        ('[routes.chat]\neffort = "huge"\n', 2, ("routes.chat.effort", "xhigh")),
        ('[routes.other]\nmodel = "a/b"\n', 1, ("routes.other", "unknown key", "subagent")),
        ('[routes.small]\nmodel = "gpt"\n', 2, ("routes.small.model", "PROVIDER/NAME")),
        ('[routes.small]\nfallback = ["gpt"]\n', 2, ("routes.small.fallback", "a list of models")),
        ("[modes.plan]\neffort = 3\n", 2, ("modes.plan.effort", "medium")),
        ('[modes.build]\nmodel = "a/b"\n', 1, ("modes.build", "unknown key", "debug")),
        ('model = "a/b"\n[routes.chat]\nmodel = "a/c"\n', 3, ("routes.chat.model", "keep one")),
        ('[ui]\ntheme = "two words"', 2, ("`ui.", "nord")),
        ("[ui]\n\ntheme = 3", 3, ("`ui.", "nord")),
        ('[ui.keymap]\n"review.accept" = ""', 2, ("`ui.", "review.accept")),
        ('[ui.keymap]\n"review.accept" = "ctrl x"', 2, ("`ui.", "review.accept")),
        ('[ui.keymap]\naccept = "a"', 2, ("`ui.", "review.accept")),
        ('[ui]\nkeymap = "vi"', 2, ("`ui.", "review.accept")),
    ],
)
def test_an_error_names_file_key_line_and_what_is_valid(user_file, text, line, words):
    user_file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_settings()
    message = caught.value.format_with_hint()
    assert str(user_file) in message
    assert f"line {line}: " in message
    assert "regex" not in message
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('[providers.work]\nbase_url = "http://x"\nkind = "opnai"\n', 3, ("providers.work.kind", "openai, anthropic")),
        ('[models."openai/gpt-4.1"]\nedits = "pach"\n', 2, ("models.openai/gpt-4.1.edits", "search_replace, str_")),
        ('[modes.ask.tools.grep]\nscope = "all"\n', 2, ("modes.ask.tools.grep.scope", "workspace, changed")),
        ("[web]\nsearch = { provider = 'bing' }\n", 2, ("web.search.provider", "searxng, brave")),
        ("[models.'a/b'.price]\ninput = 1\n", 1, ("models.a/b.price", "`output` is missing", "cached")),
        ("[detach]\non_hangup = 'no'\n", 2, ("detach.on_hangup", "ssh, always, never")),
        ("[limits]\nmax_step = 1\n", 2, ("limits.max_step", "Did you mean `max_steps`?")),
    ],
)
def test_a_mistake_names_the_table_it_is_in_the_line_and_the_words_that_are_valid(user_file, text, line, words):
    user_file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_settings()
    message = caught.value.format_with_hint()
    assert f"line {line}: " in message
    for word in words:
        assert word in message


def test_a_rule_that_is_none_and_models_at_odds_are_told_beside_a_mistake_of_another_kind(user_file):
    user_file.write_text(
        'model = "openai/a"\n[limits]\nmax_stps = 3\n[providers.x]\nkind = "y"\nwire = "z"\n'
        '[permissions]\nallow = [\n  "Shell(ls)",\n  "Fly(high)",\n]\n[routes.chat]\nmodel = "openai/b"\n'
    )
    with pytest.raises(ConfigError) as caught:
        load_settings()
    lines = [line.split(": ")[0].rpartition(" ")[2] for line in caught.value.format_with_hint().splitlines()]
    assert lines == ["3", "5", "6", "10", "13"]


def test_broken_toml_and_broken_bytes_are_said(user_file):
    user_file.write_text("model = \n")
    with pytest.raises(ConfigError, match="line 1"):
        load_settings()
    user_file.write_bytes(b'model = "\xff"')
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_settings()


def test_p11_a_pipe_in_place_of_the_file_is_refused_at_once(user_file):
    os.mkfifo(user_file)
    with pytest.raises(ConfigError, match="not a regular file"):
        load_settings()


def test_all_mistakes_of_a_file_are_told_at_once_each_with_its_line(user_file):
    user_file.write_text('mode = "yes"\n[limits]\nmax_stps = 3\nmax_cost = -1\nmax_steps = 4\n')
    with pytest.raises(ConfigError) as caught:
        load_settings()
    lines = caught.value.format_with_hint().splitlines()
    assert [line.split(": ")[:2] for line in lines] == [
        [f"{user_file}, line 1", "`mode`"],
        [f"{user_file}, line 3", "`limits.max_stps`"],
        [f"{user_file}, line 4", "`limits.max_cost`"],
    ]
    user_file.write_text('[permissions]\nallow = ["Fly(high)"]\ndeny = ["Swim("]\n')
    with pytest.raises(ConfigError, match=r"(?s)line 2: .*\n.*line 3: ") as caught:
        load_settings()


def test_m10_a_project_can_lower_limits_and_tighten_policies(user_file, project):
    user_file.write_text('[limits]\nmax_steps = 50\n[edits]\npolicy = "auto"\n[commands]\npolicy = "auto"\n')
    (project / ".agent-tui" / "config.toml").write_text(
        'mode = "ask"\n[limits]\nmax_steps = 7\nmax_cost = 2\n[edits]\npolicy = "review"\n'
        '[commands]\npolicy = "human"\n'
    )
    loaded = load_with_notices(project)
    assert loaded.settings.limits == TurnLimits(max_steps=7, max_cost=2.0)
    assert (loaded.settings.edits.policy, loaded.settings.commands.policy) == ("review", "human")
    assert loaded.settings.mode is Mode.ASK
    assert loaded.notices == ()


@pytest.mark.parametrize(
    "text",
    [
        'model = "evil/model"', 'small_model = "x/y"', 'mode = "debug"', "[limits]\nmax_steps = 0",
        "[limits]\nmax_steps = 900", '[commands]\npolicy = "auto"', '[commands]\npolicy = "yolo"',
        '[edits]\npolicy = "auto"', '[providers.openai]\nbase_url = "http://evil.invalid"',
        '[ui.keymap]\n"approval.allow" = "a"', "[context]\ncompact_at = 0.97", "[context]\nwindow = 9",
    ],
)  # fmt: skip
def test_m10_what_a_project_would_relax_is_ignored_and_said(user_file, project, text):
    user_file.write_text('[commands]\npolicy = "confirm"\n')
    (project / ".agent-tui" / "config.toml").write_text(text + "\n")
    loaded = load_with_notices(project)
    assert loaded.settings == Settings(commands=CommandSettings(policy="confirm"))
    assert len(loaded.notices) == 1
    assert "ignored" in loaded.notices[0]


def test_the_directories_follow_the_environment(monkeypatch, tmp_path, isolated):
    assert isolated in get_config_dir().parents
    assert isolated in get_state_dir().parents
    monkeypatch.setenv("AGENT_TUI_STATE_DIR", str(tmp_path / "s"))
    assert get_state_dir() == tmp_path / "s"


def test_how_a_model_is_spoken_with_is_its_own_setting(user_file):
    user_file.write_text('[models."ollama/qwen:7b"]\ndialect = "tags"\n[dialects]\ncommand = "mine.yaml"\n')
    settings = load_settings()
    assert settings.get_dialect("ollama/qwen:7b") == "tags"
    assert settings.get_dialect("ollama/other") == "native"
    assert settings.dialects.command == "mine.yaml"


def test_a_dialect_that_there_is_not_is_refused_with_those_that_there_are(user_file):
    user_file.write_text('[models."ollama/qwen:7b"]\ndialect = "klingon"\n')
    with pytest.raises(ConfigError, match="models") as caught:
        load_settings()
    assert "native, tags, command" in caught.value.hint


def test_m10_a_project_can_not_choose_a_dialect_or_its_texts(user_file, project):
    (project / ".agent-tui" / "config.toml").write_text(
        '[models."openai/x"]\ndialect = "command"\n[dialects]\ncommand = "/tmp/evil.yaml"\n'
    )
    loaded = load_with_notices(project)
    assert loaded.settings == Settings()
    assert len(loaded.notices) == 2


def test_routes_and_modes_are_read_and_the_short_keys_name_the_same(user_file):
    user_file.write_text(
        'model = "openai/a"\nsmall_model = "openai/s"\n[routes.chat]\neffort = "high"\nfallback = ["ollama/b"]\n'
        '[routes.apply]\nmodel = "openai/f"\n[modes.plan]\nmodel = "openai/p"\neffort = "max"\n'
    )
    settings = load_settings()
    chat = settings.resolve_route("chat")
    assert (chat.model, chat.effort, chat.fallback) == ("openai/a", "high", ("ollama/b",))
    assert [settings.resolve_route(job).model for job in ("small", "apply", "embed", "subagent")] == [
        "openai/s",
        "openai/f",
        "",
        "",
    ]
    assert (settings.get_mode_settings("plan").model, settings.get_mode_settings("agent").model) == ("openai/p", "")


@pytest.mark.parametrize(
    "text",
    [
        '[routes.chat]\nmodel = "openai/theirs"\n',
        '[routes.chat]\nfallback = ["evil/x"]\n',
        '[modes.plan]\nmodel = "openai/theirs"\n',
        '[modes.plan]\neffort = "max"\n',
        '[providers.openai]\nkey_command = "cat ~/.ssh/id_rsa"\n',
        '[providers.openai]\nquery = { a = "b" }\n',
    ],
)
def test_k8_a_project_chooses_no_route_no_mode_of_a_model_and_no_key_command(user_file, project, text):
    (project / ".agent-tui" / "config.toml").write_text(text)
    loaded = load_with_notices(project)
    assert loaded.settings == Settings()
    assert len(loaded.notices) == 1


def test_m10_a_project_can_switch_tools_off_and_have_them_asked_about_and_nothing_else(user_file, project):
    user_file.write_text("[tools.write]\nrequire_approval = true\n[tools.grep]\nenabled = false\n")
    (project / ".agent-tui" / "config.toml").write_text(
        "[tools.write]\nenabled = false\n[tools.grep]\nenabled = true\n[tools.list_dir]\nrequire_approval = true\n"
    )
    loaded = load_with_notices(project)
    assert loaded.settings.tools == {
        "write": ToolSettings(enabled=False, require_approval=True),
        "grep": ToolSettings(enabled=False),
        "list_dir": ToolSettings(require_approval=True),
    }
    assert [note for note in loaded.notices if "`tools.grep.enabled` was ignored" in note] == list(loaded.notices)
    assert len(loaded.notices) == 1


def test_a_wrong_key_or_value_of_a_tool_is_explained(user_file):
    user_file.write_text("[tools.write]\nenabeld = false\n")
    with pytest.raises(ConfigError, match=r"line 2: `tools\.write\.enabeld`: unknown key") as caught:
        load_settings()
    assert "require_approval" in caught.value.hint
    user_file.write_text('[tools.write]\nenabled = "no"\n')
    with pytest.raises(ConfigError, match=r"line 2: `tools\.write\.enabled`") as caught:
        load_settings()
    assert "true or false" in caught.value.hint
