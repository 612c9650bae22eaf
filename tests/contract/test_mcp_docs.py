"""docs/mcp.md: its examples are read by what reads a user's own files."""

from __future__ import annotations

import re
import shlex
import tomllib

from core.cli.arguments import parse
from core.cli.mcp import McpArguments
from core.mcp.config_files import add_entry
from core.mcp.server_config import parse_servers
from core.permissions.rules import parse_rule
from tests.contract.source_tree import ROOT

TEXT = (ROOT / "docs" / "mcp.md").read_text()


def examples(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def test_every_configuration_in_the_page_makes_a_server():
    for example in examples("json"):
        servers, problems = parse_servers(example.encode(), "docs/mcp.md", is_project=True)
        assert (len(servers), problems) == (1, ())
        assert servers[0].seconds == (300 if servers[0].is_remote else 60)


def test_every_rule_in_the_page_is_one():
    rules = [tomllib.loads(example)["permissions"] for example in examples("toml")]
    assert rules
    for rule in rules:
        assert parse_rule(rule["allow"][0], "allow").matches("files:read")
        assert not parse_rule(rule["deny"][0], "deny").matches("files:read")


def test_every_line_of_the_shell_in_the_page_is_understood(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [line for example in examples("sh") for line in example.splitlines()]
    assert lines
    for line in lines:
        arguments = parse(shlex.split(line)[1:])
        assert isinstance(arguments, McpArguments)
        if arguments.entry is not None:
            assert add_entry("", arguments.name, arguments.entry)
