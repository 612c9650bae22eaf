"""Servers that npx starts: one yes fetches the package outside of the project, and then they run without a network.

The registry is a stand-in for npm that installs a small server, since a test reaches no registry.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from core.cli.mcp import McpArguments, run
from core.exits import ExitCode
from core.protocol import commands as cmd
from core.protocol import events as ev
from core.user_dirs import get_cache_dir, get_config_dir
from tests.integration.test_mcp_servers import SERVER, answer_question, results, script, small, told
from tests.support.configured import configured
from tests.support.open_session import read_until, run_turn, session_in

NPM = """#!/usr/bin/env python3
import http.client, json, os, pathlib, sys
prefix = pathlib.Path(sys.argv[sys.argv.index("--prefix") + 1])
seen = {"words": sys.argv[1:], "project": os.path.exists(PROJECT), "proxy": os.environ.get("HTTPS_PROXY", "")}
seen["config"] = {name: os.environ[name] for name in os.environ if name.startswith("npm_config_")}
pathlib.Path(OUTSIDE).write_text("x")
if sys.argv[-1] == "broken":
    print("npm error code E404\\nnpm error 404 Not Found - broken")
    print("npm error A complete log of this run can be found in: x")
    sys.exit(1)
if sys.argv[-1] == "walled":
    proxy = http.client.HTTPConnection(os.environ["HTTPS_PROXY"].removeprefix("http://"))
    proxy.request("CONNECT", "127.0.0.1:443")
    print(f"npm error code E403\\nnpm error {proxy.getresponse().status} Forbidden - forbidden by your security policy")
    sys.exit(1)
name = sys.argv[-1]
package = prefix / "node_modules" / name
package.mkdir(parents=True)
(package / "package.json").write_text(json.dumps({"name": name, "bin": {name: "server.py"}}))
(package / "server.py").write_text("#!/usr/bin/env python3\\n" + SERVER)
(package / "server.py").chmod(0o755)
(prefix / "node_modules/.bin").mkdir()
(prefix / "node_modules/.bin" / name).symlink_to(f"../{name}/server.py")
(prefix / "seen.json").write_text(json.dumps(seen))
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root, tools = tmp_path / "project", tmp_path / "tools"
    root.mkdir()
    tools.mkdir()
    (root / "a.txt").write_text("one\n")
    npm = NPM.replace("PROJECT", repr(str(root / "a.txt"))).replace("OUTSIDE", repr(str(tmp_path / "outside")))
    (tools / "npm").write_text(npm.replace("+ SERVER", f"+ {SERVER.read_text()!r}"))
    (tools / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    return root


def configure(package: str = "small-server") -> None:
    configured('[commands]\npolicy = "auto"\n')
    entry = {"command": "npx", "args": ["-y", package]}
    (get_config_dir() / "mcp.json").write_text(json.dumps({"mcpServers": {"small": entry}}))


def read_seen() -> dict:
    [path] = (get_cache_dir() / "mcp-packages").glob("*/seen.json")
    return json.loads(path.read_text())


async def answer(engine, session, option: str) -> ev.QuestionAsked:
    question = (await read_until(engine, session, ev.QuestionAsked))[-1]
    await answer_question(engine, session, question, option)
    await read_until(engine, session, ev.TurnFinished)
    return question


async def test_s17_one_yes_fetches_the_package_and_then_the_server_runs_in_the_box(tmp_path, project):
    configure()
    (Path.home() / ".npmrc").write_text("registry=https://mirror.example/\n")
    model = script(tmp_path, small("write", path="b.txt", text="two\n"), "Done.")
    async with session_in(project, model=model, trust=True, interactive=True) as (engine, session):
        assert isinstance(await engine.submit(cmd.TurnSubmit(session=session, text="Go")), cmd.Ack)
        question = await answer(engine, session, "yes")
        assert "fetches the npm package small-server" in question.questions[0].text
        assert results(engine, session)[0].content == "written\n[changed: created b.txt; pending review]"
        assert not (project / "b.txt").exists()
    seen = read_seen()
    assert seen["words"][0] == "install"
    assert "--ignore-scripts" in seen["words"]
    assert not seen["project"]
    assert not (tmp_path / "outside").exists()
    assert seen["proxy"].startswith("http://127.0.0.1:")
    assert seen["config"]["npm_config_userconfig"] == str(Path.home() / ".npmrc")
    model = script(tmp_path, small("say", text="again"), "Done.")
    async with session_in(project, model=model, interactive=False) as (engine, session):
        await run_turn(engine, session)
        assert results(engine, session)[0].content == "again"


async def test_without_a_user_nothing_is_fetched_nor_waited_for_and_the_reason_is_told(tmp_path, project):
    configure()
    model = script(tmp_path, small("say", text="hi"), "Done.")
    async with session_in(project, model=model, trust=True, interactive=False) as (engine, session):
        await run_turn(engine, session)
        assert "small can't be used: its package small-server is not fetched yet" in told(engine, session)
        assert "`agent-tui mcp fetch small`" in results(engine, session)[0].content
        assert engine.server_access(session).servers._listing_since == {}  # nothing was started
    assert not (get_cache_dir() / "mcp-packages").exists()


async def test_a_no_is_kept_and_a_package_that_can_not_be_had_is_told_with_the_reason(tmp_path, project):
    configure("broken")
    model = script(tmp_path, small("say", text="hi"), "Done.")
    for option in ("no", "yes"):
        async with session_in(project, model=model, trust=True, interactive=True) as (engine, session):
            assert isinstance(await engine.submit(cmd.TurnSubmit(session=session, text="Go")), cmd.Ack)
            await answer(engine, session, option)
            if option == "yes":
                seen = await read_until(engine, session, ev.TurnFinished)
                [warning] = [event for event in seen if isinstance(event, ev.Notice) and "failed" in event.message]
                assert "could not be fetched: 404 Not Found - broken." in warning.message
                assert "By hand: npm install --prefix" in warning.message
                assert "could not be fetched: 404 Not Found" in results(engine, session)[0].content
        (get_config_dir() / "mcp.json").write_text((get_config_dir() / "mcp.json").read_text().replace("-y", "--yes"))
    assert [path for path in (get_cache_dir() / "mcp-packages").iterdir() if path.suffix != ".lock"] == []


async def test_of_a_host_that_is_refused_the_refusal_is_told_and_not_what_npm_makes_of_it(tmp_path, project):
    configure("walled")
    model = script(tmp_path, small("say", text="hi"), "Done.")
    async with session_in(project, model=model, trust=True, interactive=True) as (engine, session):
        assert isinstance(await engine.submit(cmd.TurnSubmit(session=session, text="Go")), cmd.Ack)
        await answer(engine, session, "yes")
        content = results(engine, session)[0].content
        assert "walled could not be fetched: The host 127.0.0.1 is not on the public network" in content
        assert "security policy" not in content


def test_the_command_line_fetches_after_a_yes_alone(tmp_path, project, capsys, monkeypatch):
    configure()
    monkeypatch.setattr("sys.stdin", None)
    arguments = McpArguments(directory=project, action="fetch", name="small")
    assert run(arguments) == ExitCode.REFUSED
    assert "Nothing was fetched" in capsys.readouterr().out
    assert run(McpArguments(directory=project, action="fetch", name="small", yes=True)) == ExitCode.DONE
    assert "Fetched small-server into" in capsys.readouterr().out
    assert read_seen()["words"][-1] == "small-server"
    assert run(McpArguments(directory=project, action="test", name="small")) == ExitCode.DONE
    assert "small started and has" in capsys.readouterr().out
