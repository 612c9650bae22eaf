"""`agent-tui mcp`: servers are listed, added, removed and tried from the shell."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import httpx2
import pytest

from core.cli.arguments import parse
from core.cli.mcp import McpArguments, run
from core.errors import AgentTuiError
from core.exits import ExitCode
from core.mcp.consent import ConsentStore
from core.mcp.server_config import ServerConfig
from core.user_dirs import get_config_dir
from tests.support.box_tiers import offered
from tests.support.mcp_http import serving
from tests.support.oauth_server import Issuer
from tests.support.trust import trust

boxed = pytest.mark.skipif(not any(tier.is_contained for tier in offered()), reason="servers need a box")
ROOT = Path(__file__).parents[3]
SERVER = Path(__file__).parents[2] / "support" / "mcp_server.py"
ADD = ("mcp", "add", "small", "--env", "TOKEN", "--env", "PLAIN=a=b", "--", "python3", "server.py", "--dir", "x")


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    shutil.copy(SERVER, root / "server.py")
    monkeypatch.chdir(root)
    return root


def carry_out(*words: str) -> int:
    arguments = parse(words)
    assert isinstance(arguments, McpArguments)
    return run(arguments)


def read_own() -> dict[str, object]:
    servers: dict[str, object] = json.loads((get_config_dir() / "mcp.json").read_text())["mcpServers"]
    return servers


def test_words_become_an_entry_in_the_dialect_of_the_file(project):
    arguments = parse(ADD)
    env = {"TOKEN": "${TOKEN}", "PLAIN": "a=b"}
    entry = {"command": "python3", "args": ["server.py", "--dir", "x"], "env": env}
    assert arguments == McpArguments(directory=project, action="add", name="small", entry=entry)
    remote = parse(["mcp", "add", "far", "--scope", "project", "--url", "https://a.example/mcp", "--header", "A: b:c"])
    there = {"type": "http", "url": "https://a.example/mcp", "headers": {"A": "b:c"}}
    assert remote == McpArguments(directory=project, action="add", name="far", scope="project", entry=there)
    assert parse(["mcp"]) == parse(["mcp", "list", str(project)]) == McpArguments(directory=project)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add",), "add takes one NAME"),
        (("add", "a"), "either --url URL, or a command after --:"),
        (("add", "a", "--url", "https://x", "--", "y"), "either --url URL, or a command after --:"),
        (("add", "a", "--header", "A: b", "--", "y"), "for a remote server, with --url"),
        (("add", "a", "--url", "https://x", "--header", "A"), "--header takes 'NAME: VALUE'"),
        (("add", "a", "--url", "https://x", "--env", "A=b"), "--env is for a command"),
        (("add", "a", "--env", "1=b", "--", "y"), "--env takes NAME or NAME=VALUE"),
        (("test",), "test takes one NAME"),
    ],
)
def test_words_that_say_no_entry_are_told(project, capsys, words, said):
    with pytest.raises(SystemExit):
        parse(["mcp", *words])
    assert said in capsys.readouterr().err


def test_a_server_is_added_listed_and_removed_again(project, capsys):
    assert carry_out("mcp", "add", "small", "--env", "TOKEN", "--", "python3", "server.py") == ExitCode.DONE
    assert "small added to" in capsys.readouterr().out
    carry_out("mcp")
    output = capsys.readouterr().out
    assert "+ small  [" in output
    assert '    command: ["python3","server.py"]\n    env TOKEN: ${TOKEN}\n' in output
    carry_out("mcp", "list", "--json")
    assert [server["name"] for server in json.loads(capsys.readouterr().out)["servers"]] == ["small"]
    assert carry_out("mcp", "remove", "small") == ExitCode.DONE
    assert read_own() == {}
    with pytest.raises(AgentTuiError, match="no server 'small'"):
        carry_out("mcp", "remove", "small")


def test_a_server_of_the_project_waits_for_a_yes_and_one_that_is_off_says_so(project, capsys):
    carry_out("mcp", "add", "small", "--scope", "project", "--", "python3", "server.py")
    assert "It needs your approval before it runs" in capsys.readouterr().out
    carry_out("mcp")
    assert "This project is not trusted" in capsys.readouterr().out
    trust(project)
    carry_out("mcp")
    assert "? small  [.mcp.json]  (needs your approval)" in capsys.readouterr().out
    with pytest.raises(AgentTuiError, match="has not approved"):
        carry_out("mcp", "test", "small")
    ConsentStore(project).switch("small", is_off=True)
    carry_out("mcp")
    assert "- small  [.mcp.json]  (off)" in capsys.readouterr().out


def test_a_broken_file_is_told_and_left_as_it_is(project, capsys):
    (project / ".mcp.json").write_text("{")
    with pytest.raises(AgentTuiError, match=r"\.mcp\.json: it is not valid JSON"):
        carry_out("mcp", "add", "small", "--scope", "project", "--", "python3")
    trust(project)
    carry_out("mcp")
    assert "! .mcp.json is not valid JSON" in capsys.readouterr().out
    assert (project / ".mcp.json").read_text() == "{"


@boxed
def test_a_server_is_tried_in_the_box_and_nothing_of_it_is_left(project, capsys):
    carry_out("mcp", "add", "small", "--", "python3", "${workspaceFolder}/server.py")
    carry_out("mcp", "add", "bad", "--", "python3", "${workspaceFolder}/server.py", "broken")
    capsys.readouterr()
    assert carry_out("mcp", "test", "small") == ExitCode.DONE
    output = capsys.readouterr().out
    assert output.startswith("small started and has ")
    assert "tools:\n  write\n    Writes a file.\n  read  (read-only" in output
    with pytest.raises(AgentTuiError, match="no licence"):
        carry_out("mcp", "test", "bad")
    with pytest.raises(AgentTuiError, match="no MCP server 'other'"):
        carry_out("mcp", "test", "other")
    assert sorted(path.name for path in project.iterdir()) == ["server.py"]


@boxed
def test_i3_a_server_of_the_project_is_tried_after_the_yes_to_its_entry(project, capsys):
    carry_out("mcp", "add", "small", "--scope", "project", "--", "python3", "${workspaceFolder}/server.py")
    trust(project)
    server_config = ServerConfig(name="small", is_project=True, command=("python3", "${workspaceFolder}/server.py"))
    ConsentStore(project).save(server_config, is_allowed=True)
    assert carry_out("mcp", "test", "small") == ExitCode.DONE
    assert "small started and has" in capsys.readouterr().out


def test_a_login_is_shown_and_waited_for_and_can_be_forgotten(project, capsys, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    issuer = Issuer()

    async def serve(ready: threading.Event, done: threading.Event, urls: list[str]) -> None:
        async with serving(issuer.build_server) as server:
            urls.append(server.url)
            ready.set()
            await asyncio.to_thread(done.wait)

    ready, done, urls = threading.Event(), threading.Event(), list[str]()
    thread = threading.Thread(target=lambda: asyncio.run(serve(ready, done, urls)))
    thread.start()
    assert ready.wait(60)
    words = [sys.executable, str(ROOT / "agent_tui.py"), "mcp"]
    try:
        carry_out("mcp", "add", "far", "--url", urls[0])
        with subprocess.Popen([*words, "login", "far", "--no-browser"], stdout=subprocess.PIPE, text=True) as started:
            assert started.stdout is not None
            page = next(line.strip() for line in started.stdout if line.startswith("http"))
            httpx2.get(page, follow_redirects=True, trust_env=False)
            assert f"Logged in to far at {urls[0].removesuffix('/mcp')}" in started.stdout.read()
        capsys.readouterr()
        assert carry_out("mcp", "logout", "far") == ExitCode.DONE
        assert capsys.readouterr().out == "The login to far is forgotten.\n"
    finally:
        done.set()
        thread.join()


def test_a_server_of_the_project_gets_no_login_before_the_users_yes(project):
    carry_out("mcp", "add", "far", "--scope", "project", "--url", "https://a.example/mcp")
    trust(project)
    with pytest.raises(AgentTuiError, match="needs your approval"):
        carry_out("mcp", "login", "far")
    with pytest.raises(AgentTuiError, match="there is no MCP server 'near' here"):
        carry_out("mcp", "login", "near")
