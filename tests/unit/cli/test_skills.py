"""`agent-tui skills` in a terminal."""

from __future__ import annotations

import pytest

from core.cli.arguments import parse
from core.cli.commands import format_commands
from core.cli.mcp import format_servers
from core.cli.skills import SkillsArguments, format_skills, run
from core.protocol.queries import CommandsAnswer, ServersAnswer, SkillsAnswer


@pytest.mark.parametrize(("is_trusted", "word"), [(True, "here"), (False, "of your own")])
def test_a_list_does_not_deny_what_an_untrusted_project_may_have(is_trusted, word):
    assert format_skills(SkillsAnswer(skills=(), is_trusted=is_trusted)) == [f"There are no skills {word}."]
    servers = ServersAnswer(servers=(), problems=(), is_trusted=is_trusted)
    assert next(iter(format_servers(servers))) == f"There are no MCP servers {word}."
    [line] = format_commands(CommandsAnswer(commands=(), is_trusted=is_trusted))
    assert line.startswith(f"There are no commands {word} ")


def test_a_check_of_a_project_that_is_not_trusted_vouches_for_your_own_alone(tmp_path, capsys):
    arguments = parse(["skills", "check", str(tmp_path)])
    assert isinstance(arguments, SkillsArguments)
    assert run(arguments) == 0
    output = capsys.readouterr().out
    assert output.startswith("No problems with your own.\nThis project is not trusted")
