from __future__ import annotations

import pytest

from core.engine.session.proof import find_proof_check, get_contract_name
from core.protocol import events as ev
from core.state.session import CheckRun, SessionState, TurnState


@pytest.mark.parametrize(
    ("contract", "name"),
    [
        ("signature of price", "price"),
        ("signature of Shop.open", "open"),
        ("Shop.open is gone", "open"),
        ("dependencies", ""),
        ("", ""),
    ],
)
def test_a_contract_is_about_a_name(contract, name):
    assert get_contract_name(contract) == name


def state_of(*commands: str) -> SessionState:
    state = SessionState()
    checks = {command: CheckRun(exit_code=0) for command in commands}
    state.turns.append(TurnState(id="turn_1", seq=1, prompt="", mode="agent", model="m", started=0, checks=checks))
    return state


@pytest.mark.parametrize(
    ("commands", "patterns", "command"),
    [
        ((), (), None),
        (("ruff check .",), (), None),
        (("pytest -q",), (), "pytest -q"),
        (("pytest -q", "pytest -q tests/test_a.py"), (), "pytest -q"),
        (("pytest -q tests/test_a.py",), (), "pytest -q tests/test_a.py"),
        (("pytest -q", "python -m unittest"), (), "python -m unittest"),
        ((), ("bin/verify",), "bin/verify"),
        ((), ("nix flake check*",), None),
    ],
)
def test_the_check_is_the_last_run_of_all_tests_else_of_a_part_else_a_configured_one(commands, patterns, command):
    check = find_proof_check(state_of(*commands), patterns)
    assert (check.command if check is not None else None) == command
    assert ev.ProofFinished().reason == ""
