"""Servers of Codex and opencode: what their entries become, and what is told of the rest."""

from __future__ import annotations

import json

import pytest

from core.errors import ConfigError
from core.mcp.config_files import load_servers
from core.mcp.consent import ConsentStore
from core.mcp.foreign_servers import list_file_references, read_foreign_entries
from core.mcp.server_config import parse_entries
from core.user_dirs import get_config_dir
from core.workspace import Workspace

CODEX = """
model = "m"
[mcp_servers.docs]
command = "docs-server"
args = ["--fast"]
env_vars = ["DOCS_TOKEN", { name = "OTHER", source = "local" }]
startup_timeout_sec = 20
tool_timeout_sec = 60
required = true
disabled_tools = ["drop"]
[mcp_servers.docs.env]
LEVEL = "debug"
[mcp_servers.remote]
url = "https://mcp.example.com/mcp"
bearer_token_env_var = "REMOTE_TOKEN"
http_headers = { "X-A" = "1" }
env_http_headers = { "X-B" = "B_VALUE" }
scopes = ["read"]
[mcp_servers.remote.oauth]
client_id = "abc"
[mcp_servers.off]
command = "x"
enabled = false
"""
OPENCODE = """{
  // of a person
  "mcp": {
    "time": {"type": "local", "command": ["time-server", "-v"], "environment": {"K": "{env:KEY}"}, "timeout": 5000},
    "remote": {"type": "remote", "url": "https://x.example/mcp", "headers": {"Authorization": "Bearer {env:T}"},
               "oauth": {"clientId": "abc", "scope": "read write"}},
    "file": {"type": "remote", "url": "https://x.example/mcp", "headers": {"A": "{file:~/token}"}},
    "off": {"type": "local", "command": ["x"], "enabled": false},
  },
}"""


def read(path, text):
    entries, off = read_foreign_entries(path, text.encode())
    servers, problems = parse_entries(entries, path, is_project=False)
    return {server.name: server for server in servers}, [problem.reason for problem in problems], off, entries


def test_servers_of_codex_become_entries_of_ours():
    servers, problems, off, _ = read("~/.codex/config.toml", CODEX)
    docs, remote = servers["docs"], servers["remote"]
    assert docs.command == ("docs-server", "--fast")
    assert docs.env == {"DOCS_TOKEN": "${DOCS_TOKEN:-}", "OTHER": "${OTHER:-}", "LEVEL": "debug"}
    assert docs.seconds == 60.0
    assert docs.list_variables() == ("DOCS_TOKEN", "OTHER")
    assert (remote.url, remote.transport) == ("https://mcp.example.com/mcp", "http")
    assert remote.headers == {"X-A": "1", "X-B": "${B_VALUE}", "Authorization": "Bearer ${REMOTE_TOKEN}"}
    assert (remote.oauth.client_id, remote.oauth.scopes) == ("abc", ("read",))
    assert off == ("off",)
    assert problems == []
    assert (docs.only_tools, docs.without_tools) == (None, ("drop",))


@pytest.mark.parametrize(
    ("lines", "offered"),
    [
        ("", ["a", "b", "c"]),
        ('enabled_tools = ["a", "b"]', ["a", "b"]),
        ('enabled_tools = ["a", "b"]\ndisabled_tools = ["b"]', ["a"]),
        ("enabled_tools = []", []),
        ('disabled_tools = ["c"]', ["a", "b"]),
    ],
)
def test_of_a_server_of_codex_only_the_tools_that_it_leaves_on_are_offered_and_the_yes_is_to_them(lines, offered):
    servers, problems, _, _ = read("~/.codex/config.toml", f'[mcp_servers.s]\ncommand = "x"\n{lines}\n')
    plain, _, _, _ = read("~/.codex/config.toml", '[mcp_servers.s]\ncommand = "x"\n')
    assert ([name for name in "abc" if servers["s"].offers(name)], problems) == (offered, [])
    assert (servers["s"].compute_hash() == plain["s"].compute_hash()) == (not lines)
    assert ("its tools: " in servers["s"].describe()) == bool(lines)


def test_a_list_of_tools_that_is_none_offers_no_server():
    servers, problems, _, _ = read("~/.codex/config.toml", '[mcp_servers.s]\ncommand = "x"\nenabled_tools = "a"\n')
    assert (servers, problems) == ({}, ['"enabled_tools" has to be a list of texts'])


def test_servers_of_opencode_become_entries_of_ours():
    servers, problems, off, entries = read("opencode.jsonc", OPENCODE)
    assert servers["time"].command == ("time-server", "-v")
    assert servers["time"].env == {"K": "${KEY:-}"}
    assert servers["time"].seconds == 300.0
    assert servers["remote"].headers == {"Authorization": "Bearer ${T:-}"}
    assert servers["remote"].oauth.scopes == ("read", "write")
    assert list_file_references(entries["file"]) == ["{file:~/token}"]
    assert (problems, off) == ([], ("off",))


@pytest.mark.parametrize(("path", "text"), [("config.toml", "= x"), ("opencode.json", "{")])
def test_a_broken_file_offers_nothing_and_is_told_of(path, text):
    with pytest.raises(ConfigError, match="can't be read"):
        read_foreign_entries(path, text.encode())


@pytest.mark.parametrize("document", [{}, {"mcp": 3}, {"mcp": {"a": 3}}, {"mcp": {"a": {}}}, []])
def test_what_is_no_server_is_none(document):
    servers, _, _, _ = read("opencode.json", json.dumps(document))
    assert servers == {}


def test_i3_a_server_of_another_program_is_offered_and_needs_a_yes_and_a_name_of_ours_comes_first(tmp_path):
    home = tmp_path.home()
    (home / ".codex").mkdir(parents=True, exist_ok=True)
    (home / ".codex/config.toml").write_text(CODEX)
    project = tmp_path / "project"
    project.mkdir()
    (project / "opencode.json").write_text(OPENCODE)
    get_config_dir().mkdir(parents=True, exist_ok=True)
    (get_config_dir() / "mcp.json").write_text('{"mcpServers": {"remote": {"command": "mine"}}}')
    mine = {server.name: server for server in load_servers(Workspace(project), None).servers}
    assert set(mine) == {"docs", "remote"}
    assert [mine[name].is_offered for name in ("docs", "remote")] == [True, False]
    both = load_servers(Workspace(project), lambda *_: True)
    assert {server.name for server in both.servers} == {"docs", "remote", "time"}
    assert any("{file:…}" in problem.reason for problem in both.problems)
    store = ConsentStore(project)
    assert store.get_answer(mine["docs"]) is None
    store.save(mine["docs"], is_allowed=True)
    assert store.get_answer(mine["docs"]) is True
    assert store.get_answer(mine["remote"]) is True
