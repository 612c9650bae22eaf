from __future__ import annotations

from pathlib import Path
from typing import get_args

from core.engine import Engine
from core.engine.commands import COMMANDS
from core.engine.queries import QUERIES
from core.protocol.commands import AnyCommand
from core.protocol.queries import AnyQuery


def test_every_command_is_the_engines_or_a_sessions_and_stands_in_one_table():
    of_engine = set(Engine(Path())._commands)
    assert of_engine | set(COMMANDS) == set(get_args(AnyCommand))
    assert of_engine & set(COMMANDS) == set()


def test_every_query_has_an_answer():
    assert set(QUERIES) == set(get_args(AnyQuery))
