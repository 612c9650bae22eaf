from __future__ import annotations

import subprocess

import pytest

from core.sandbox.tiers.boxed_process import build_python_command


def answer(words: list[str], script: str) -> str:
    at = words.index("-c") + 1
    argv = [*words[:at], script, *words[at + 1 :]]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=20).stdout.strip()


def test_it_runs_apart_from_the_users_settings_and_writes_no_bytecode():
    code = "import sys; print(sys.flags.isolated, sys.flags.no_site, sys.flags.dont_write_bytecode)"
    assert answer(build_python_command("fork_server", 7, 1), code) == "1 1 1"


@pytest.mark.parametrize("module", ["fork_server", "supervisor"])
def test_it_calls_main_of_the_module_with_the_numbers(module):
    words = build_python_command(module, 7, 1)
    script = words[words.index("-c") + 1].replace("; main(", "; print(main.__module__, ").replace("*map", "*map", 1)
    assert answer(words, script) == f"core.sandbox.inside.{module} 7 1"
