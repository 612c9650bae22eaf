"""Git is asked for the settings of the user and of a repository again only if they may have changed."""

from __future__ import annotations

import os
import subprocess
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from core.git import repository as module
from core.git.repository import GitRepository, find_git, read_settings
from core.git.safe_config import find_last

MOMENTS = count(1_000_000_000)


@pytest.fixture
def user(tmp_path: Path, monkeypatch: Any) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in list(os.environ):
        if name == "XDG_CONFIG_HOME" or name.startswith("GIT_CONFIG"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(module, "_users_settings", {})
    monkeypatch.setattr(module, "_SETTLED_NS", -1_000_000_000)
    module._parse_config.cache_clear()
    return home / ".gitconfig"


@pytest.fixture
def processes(monkeypatch: Any) -> list[Any]:
    commands: list[Any] = []
    start = subprocess.Popen

    def record(command: Any, **options: Any) -> Any:
        commands.append(command)
        return start(command, **options)

    monkeypatch.setattr(module.subprocess, "Popen", record)
    return commands


def read(tmp_path: Path, own: bytes = b"[core]\n\teol = lf\n") -> tuple[str, str]:
    users, settings = read_settings(GitRepository(find_git(tmp_path), tmp_path, tmp_path), own)
    return find_last(users, "core.autocrlf"), find_last(settings, "core.eol")


def write(path: Path, value: str, more: str = "") -> None:
    path.write_text(f"[core]\n\tautocrlf = {value}\n{more}")
    moment = next(MOMENTS)  # the clock of a file system has steps
    os.utime(path, ns=(moment, moment))


def test_unchanged_settings_are_read_once(tmp_path, user, processes):
    write(user, "input")
    assert [read(tmp_path) for _ in range(3)] == [("input", "lf")] * 3
    assert len(processes) == 2


def test_changed_settings_are_read_again(tmp_path, user, processes):
    assert read(tmp_path) == ("", "lf")
    write(user, "input")  # a file that was missing
    assert read(tmp_path) == ("input", "lf")
    write(user, "false")  # as many bytes
    assert read(tmp_path) == ("false", "lf")
    assert read(tmp_path, b"[core]\n\teol = crlf\n") == ("false", "crlf")
    user.unlink()
    assert read(tmp_path) == ("", "lf")


def test_settings_with_includes_are_always_read(tmp_path, user, processes):
    included = tmp_path / "later"
    write(user, "input", f"[include]\n\tpath = {included}\n")
    assert read(tmp_path)[0] == "input"
    write(included, "true")
    assert read(tmp_path)[0] == "true"


def test_settings_of_the_environment_are_always_read(tmp_path, user, processes, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "other"))
    write(tmp_path / "other", "true")
    assert [read(tmp_path)[0] for _ in range(2)] == ["true", "true"]
    assert not module._users_settings


def test_a_file_that_has_just_changed_is_read_again(tmp_path, user, processes, monkeypatch):
    monkeypatch.setattr(module, "_SETTLED_NS", 60_000_000_000)
    write(user, "input")
    assert [read(tmp_path)[0] for _ in range(2)] == ["input", "input"]
    assert not module._users_settings
