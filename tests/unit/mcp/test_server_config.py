from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import ConfigError
from core.mcp.server_config import ServerConfig, Variables, parse_env_file, parse_servers

VARIABLES = Variables(Path("/work/shop"), {"HOME": "/home/me", "TOKEN": "t0ken"})


def parse(**entries):
    return parse_servers(json.dumps({"mcpServers": entries}).encode(), ".mcp.json", is_project=True)


def test_both_dialects_are_read():
    servers, problems = parse(
        git={"command": "uvx", "args": ["mcp-server-git"], "env": {"A": "${env:TOKEN}"}, "envFile": ".env"},
        docs={"type": "streamable-http", "url": "https://docs.example/mcp", "headers": {"X": "${TOKEN:-none}"}},
        old={"type": "sse", "url": "https://old.example/sse", "timeout": 2000},
        bare={"url": "https://bare.example"},
        guessed={"url": "https://old.example/sse/"},
    )
    assert problems == ()
    assert [server.transport for server in servers] == ["stdio", "http", "sse", "http", "sse"]
    assert servers[0].command == ("uvx", "mcp-server-git")
    assert servers[2].seconds == 2
    assert servers[0].list_variables() == ("TOKEN",)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({}, 'either "command" or "url"'),
        ({"command": "x", "url": "y"}, 'either "command" or "url"'),
        ({"command": "x", "args": "y"}, '"args" has to be a list'),
        ({"command": "x", "env": ["a"]}, '"env" has to be an object'),
        ({"command": "x", "timeout": 10}, '"timeout" has to be milliseconds'),
        ({"command": "x", "type": "http"}, "does not go with a command"),
        ({"url": "x", "type": "ws"}, 'WebSocket is not supported: its "type" has to be "http" or "sse"'),
        ({"url": "x", "headersHelper": ["a"]}, '"headersHelper" has to be a command'),
        ({"command": "x", "headersHelper": "a"}, 'only a "url" is sent headers'),
        ({"url": "x", "oauth": {"scopes": ["a b"]}}, '"scopes" has to be a text'),
        ({"url": "x", "auth": {"scopes": [1]}}, '"scopes" has to be a text'),
        ({"url": "x", "oauth": "me"}, '"oauth" has to be an object'),
        ({"url": "x", "oauth": {"callbackPort": 70_000}}, '"callbackPort" has to be the number of a port'),
        (["x"], "has to be an object"),
    ],
)
def test_an_entry_that_makes_no_server_is_told_and_the_others_count(entry, said):
    servers, (problem,) = parse(good={"command": "x"}, bad=entry)
    assert [server.name for server in servers] == ["good"]
    assert (problem.name, problem.source) == ("bad", ".mcp.json")
    assert said in problem.reason


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 65, "-x"])
def test_a_name_that_is_none_is_refused(name):
    _, (problem,) = parse(**{name: {"command": "x"}})
    assert "letters, digits" in problem.reason


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"mcpServers": []}', b"\xff"])
def test_a_file_that_is_none_is_an_error(text):
    with pytest.raises(ConfigError) as caught:
        parse_servers(text, "x.json", is_project=False)
    assert "x.json" in caught.value.message


def test_variables_of_both_dialects_are_replaced():
    assert VARIABLES.expand("${userHome}${/}${workspaceFolderBasename}") == "/home/me/shop"
    assert VARIABLES.expand("${workspaceFolder} ${TOKEN} ${env:TOKEN} ${NONE:-else}") == "/work/shop t0ken t0ken else"
    with pytest.raises(ConfigError, match="NONE is not set"):
        VARIABLES.expand("${NONE}")


def test_i10_a_variable_of_the_user_never_reaches_a_command_line():
    assert VARIABLES.expand("${HOME}/bin", is_public=True) == "/home/me/bin"
    with pytest.raises(ConfigError, match="all processes of this machine can read"):
        VARIABLES.expand("--token=${env:TOKEN}", is_public=True)


def test_i3_the_hash_is_another_one_when_anything_that_counts_is():
    base = ServerConfig(name="x", command=("a", "b"), env={"A": "1"}, url="", headers={"H": "1"}, env_file=".env")
    others = [
        ServerConfig(name="x", command=("a b",), env={"A": "1"}, headers={"H": "1"}, env_file=".env"),
        ServerConfig(name="x", command=("a", "b"), env={"A": "2"}, headers={"H": "1"}, env_file=".env"),
        ServerConfig(name="x", command=("a", "b"), env={"A": "1"}, headers={"H": "2"}, env_file=".env"),
        ServerConfig(name="x", command=("a", "b"), env={"A": "1"}, headers={"H": "1"}),
        ServerConfig(name="x", command=("a", "b"), env={"A": "1"}, headers={"H": "1"}, env_file=".env", url="u"),
    ]
    assert base.compute_hash() not in {config.compute_hash() for config in others}
    assert len({config.compute_hash() for config in others}) == len(others)


def test_an_env_file_is_read_as_shells_would():
    text = "# no\nexport A=1 # one\nB='two words # kept'\nC=\"x\"\n1BAD=2\nnothing\nD=\n"
    assert parse_env_file(text) == {"A": "1", "B": "two words # kept", "C": "x", "D": ""}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda each: st.lists(each) | st.dictionaries(st.text(), each),
)


@given(JSON)
def test_any_json_makes_servers_or_words(entry):
    servers, problems = parse(one=entry)
    assert len(servers) + len(problems) == 1


def test_the_variables_that_a_server_is_given_are_those_of_the_user_and_no_folders():
    env = {"A": "${env:TOKEN}", "B": "${workspaceFolder}/${userHome}", "C": "${CLAUDE_PROJECT_DIR}", "D": "${KEY:-x}"}
    assert ServerConfig(name="x", command=("${workspaceFolder}/x",), env=env).list_variables() == ("KEY", "TOKEN")


def test_what_a_login_needs_is_read_in_both_dialects_and_a_secret_of_it_is_not_shown():
    servers, _ = parse(
        claude={"url": "https://a.example", "oauth": {"clientId": "me", "clientSecret": "plain", "callbackPort": 3000}},
        cursor={"url": "https://a.example", "auth": {"CLIENT_ID": "me", "CLIENT_SECRET": "${TOKEN}"}},
    )
    claude, cursor = servers
    assert (claude.oauth.client_id, claude.oauth.client_secret, claude.oauth.port) == ("me", "plain", 3000)
    assert "plain" not in claude.describe()
    assert "login secret: ${TOKEN}" in cursor.describe()
    assert cursor.list_variables() == ("TOKEN",)
    (other,), _ = parse(claude={"url": "https://a.example", "oauth": {"clientId": "me", "clientSecret": "other"}})
    assert other.compute_hash() != claude.compute_hash()


@pytest.mark.parametrize("said", [{"oauth": {"scopes": "read write"}}, {"auth": {"scopes": ["read", "write", "read"]}}])
def test_the_rights_of_a_login_are_read_in_both_dialects(said):
    (server,), problems = parse(far={"url": "https://far.example", **said})
    assert (server.oauth.scopes, problems) == (("read", "write"), ())
    assert "login rights: read write" in server.describe()


def test_a_command_for_headers_is_shown_and_part_of_what_a_yes_is_given_to():
    (server,), _ = parse(far={"url": "https://far.example", "headersHelper": "bin/token --short"})
    (other,), _ = parse(far={"url": "https://far.example", "headersHelper": "bin/token"})
    assert "command for headers: bin/token --short" in server.describe()
    assert server.compute_hash() != other.compute_hash()


def test_what_an_entry_says_without_effect_is_told_and_the_server_counts():
    unknown = {"alwaysLoad": True, "oauth": {"authServerMetadataUrl": "https://a.example"}, "auth": {"ISSUER": "x"}}
    (server,), (problem,) = parse(far={"url": "https://far.example", "description": "Far.", **unknown})
    assert (server.name, problem.name) == ("far", "far")
    for phrase in ('"alwaysLoad"', '"oauth.authServerMetadataUrl"', '"auth.ISSUER"', "not supported"):
        assert phrase in problem.reason
    _, (problem,) = parse(near={"command": "x", "headers": {}})
    assert '"headers" is not supported' in problem.reason


def test_a_file_of_servers_is_read_as_people_write_it():
    text = '\ufeff{"mcpServers": { // mine\n "a": {"command": "node", "args": ["//x", ], },\n}}'
    (server,), problems = parse_servers(text.encode(), "mcp.json", is_project=False)
    assert (server.command, problems) == (("node", "//x"), ())
