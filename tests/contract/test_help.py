"""`agent-tui --help` names every subcommand with its verbs, and nothing else."""

from __future__ import annotations

import re

import pytest

from core.cli.arguments import COMMANDS, DOCTOR, SUBCOMMANDS, parse
from core.cli.completion import FIRST_WORDS, HIDDEN

ROWS = dict(re.findall(r"(?m)^  ([a-z]+) {2,}((?:.|\n {4,})*)$", COMMANDS))
VERBS = {**FIRST_WORDS, "plan": ("list", "show", "check", "set"), "config": ("explain", "check", "edit")}


def test_help_names_every_subcommand_once():
    assert set(ROWS) == {*SUBCOMMANDS, DOCTOR} - HIDDEN


@pytest.mark.parametrize("command", sorted(VERBS.keys() & ROWS.keys()))
def test_the_row_of_a_subcommand_names_its_verbs(command):
    words = set(re.findall(r"[a-z]+", ROWS[command]))
    assert set(VERBS[command]) <= words


def test_help_fits_a_terminal_of_80_columns():
    assert max(map(len, COMMANDS.splitlines())) <= 80


@pytest.mark.parametrize("line", ["doctor --help", "doctor . -h"])
def test_doctor_has_a_help_of_its_own(line, capsys):
    with pytest.raises(SystemExit) as caught:
        parse(line.split())
    assert caught.value.code == 0
    assert capsys.readouterr().out.startswith("usage: agent-tui doctor [DIR] [--probe]\n")
