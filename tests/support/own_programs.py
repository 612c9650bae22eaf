"""Programs of this very environment at places that the box shows: the environment itself may lie below /tmp."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest


def link_program(name: str, directory: Path) -> None:
    """Have a program of this environment in a directory, too."""
    program = shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert program is not None
    directory.mkdir(parents=True, exist_ok=True)
    try:
        os.link(Path(program).resolve(), directory / name)
    except OSError:
        shutil.copy(program, directory)


def put_on_path(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Have programs of this environment on PATH, where users have theirs."""
    place = Path.home() / ".local" / "bin"
    for name in names:
        link_program(name, place)
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")
