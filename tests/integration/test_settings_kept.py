"""Settings that are changed in the program: what is written, what holds then, and what the project still says."""

from __future__ import annotations

import tomllib

import pytest

from core.engine.engine import Engine
from core.protocol import commands as cmd
from core.protocol import queries as q
from core.protocol.options import EngineOptions
from core.user_dirs import get_config_dir

OWN = "# mine\n[limits]  # of a turn\nmax_steps = 50  # enough\n"


@pytest.fixture
def file():
    get_config_dir().mkdir(parents=True, exist_ok=True)
    path = get_config_dir() / "config.toml"
    path.write_text(OWN)
    return path


def engine_at(project, **options):
    return Engine(project, options=EngineOptions(watch=False, preload=False, **options))


async def ask(engine, key):
    answer = await engine.query(q.ConfigQuery(key=key))
    assert isinstance(answer, q.ConfigAnswer)
    return answer.settings[0]


async def test_a_change_is_written_between_the_users_lines_and_holds_in_the_open_session(tmp_path, file):
    engine = engine_at(tmp_path)
    opened = await engine.submit(cmd.SessionOpen(model="scripted/demo"))
    assert isinstance(await engine.submit(cmd.SettingKeep(key="limits.max_steps", text="7")), cmd.Ack)
    assert file.read_text() == OWN.replace("50", "7")
    assert engine.state(opened.session).limits.max_steps == 7
    row = await ask(engine, "limits.max_steps")
    assert (row.value, row.origin, row.own) == (7, "user", 7)
    assert isinstance(await engine.submit(cmd.SettingKeep(key="limits.max_steps")), cmd.Ack)
    assert file.read_text() == "# mine\n[limits]  # of a turn\n"
    assert engine.state(opened.session).limits.max_steps == 100
    assert (await ask(engine, "limits.max_steps")).origin == "default"
    await engine.close()


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("limits.max_steps", "-1", "`limits.max_steps` can't be -1."),
        ("commands.policy", "often", "`commands.policy` can't be often."),
        ("permissions.allow", '["Shel(x)"]', "is not a permission rule"),
        ("no.such", "1", "there is no setting"),
    ],
)
async def test_a_value_that_does_not_fit_is_refused_and_nothing_is_written(tmp_path, file, key, text, words):
    engine = engine_at(tmp_path)
    reply = await engine.submit(cmd.SettingKeep(key=key, text=text))
    assert isinstance(reply, cmd.Reject)
    assert words in reply.message
    assert str(file) not in reply.message
    assert reply.hint
    assert file.read_text() == OWN
    await engine.close()


async def test_the_project_and_the_command_line_still_win(tmp_path, file):
    (tmp_path / ".agent-tui").mkdir()
    (tmp_path / ".agent-tui" / "config.toml").write_text("[limits]\nmax_steps = 5\n")
    engine = engine_at(tmp_path, trust=True, max_cost=2.5)
    for key, text in (("limits.max_steps", "70"), ("limits.max_cost", "9.0")):
        assert isinstance(await engine.submit(cmd.SettingKeep(key=key, text=text)), cmd.Ack)
    assert tomllib.loads(file.read_text())["limits"] == {"max_steps": 70, "max_cost": 9.0}
    steps, cost = await ask(engine, "limits.max_steps"), await ask(engine, "limits.max_cost")
    assert (steps.value, steps.own, steps.source) == (5, 70, ".agent-tui/config.toml, line 2")
    assert (cost.value, cost.own, cost.source) == (2.5, 9.0, "--max-cost on the command line")
    await engine.close()


@pytest.mark.parametrize(
    ("options", "key", "source"),
    [
        ({"effort": "low"}, "routes.chat.effort", "--effort"),
        ({"model": "scripted/demo"}, "model", "--model"),
        ({"mode": "ask"}, "mode", "--mode"),
        ({"private": True}, "privacy", "--private"),
        ({"private": False}, "privacy", "--no-private"),
        ({"max_tokens": 9}, "limits.max_tokens", "--max-tokens"),
        ({"allow": ("Shell(ls)",)}, "permissions.allow", "--allow"),
    ],
)
async def test_an_option_is_named_as_the_source_and_no_other_setting_has_one(tmp_path, file, options, key, source):
    engine = engine_at(tmp_path, **options)
    answer = await engine.query(q.ConfigQuery())
    commanded = {row.key: row.source for row in answer.settings if row.origin == "command line"}
    assert commanded == {key: f"{source} on the command line"}
    await engine.close()


async def test_the_projects_file_is_never_written(tmp_path, file):
    theirs = tmp_path / ".agent-tui" / "config.toml"
    theirs.parent.mkdir()
    theirs.write_text("[limits]\nmax_steps = 5\n")
    engine = engine_at(tmp_path, trust=True)
    for text in ("3", "70", None):
        await engine.submit(cmd.SettingKeep(key="limits.max_steps", text=text))
    assert theirs.read_text() == "[limits]\nmax_steps = 5\n"
    await engine.close()


async def test_what_has_nothing_to_do_with_models_leaves_their_connections_open(tmp_path, file):
    script = tmp_path / "script.yaml"
    script.write_text("steps: []\n")
    engine = engine_at(tmp_path)
    opened = await engine.submit(cmd.SessionOpen(model=f"scripted/{script}"))
    routes = engine._sessions[opened.session].routes
    routes.open()
    route = routes.current
    await engine.submit(cmd.SettingKeep(key="ui.plain", text="true"))
    await engine.wait_idle(opened.session)
    assert routes.current is route
    await engine.submit(cmd.SettingKeep(key="context.window", text="9000"))
    await engine.wait_idle(opened.session)
    assert routes.current is None
    await engine.close()


async def test_what_is_set_elsewhere_is_listed_with_its_place_and_no_key_is_shown(tmp_path, file):
    file.write_text(
        OWN + '[providers.work]\nheaders = { x = "sk-of-work-0123456789" }\nbase_url = "http://127.0.0.1:9"\n'
    )
    engine = engine_at(tmp_path)
    answer = await engine.query(q.ConfigQuery())
    rows = {row.key: row for row in answer.settings}
    assert {"rules", "hooks", "mcp", "agent_servers"} <= {key for key, row in rows.items() if row.elsewhere}
    assert rows["providers.work.headers"].elsewhere
    assert rows["providers.work.base_url"].elsewhere == ""
    assert "sk-of-work" not in str(answer)
    await engine.close()
