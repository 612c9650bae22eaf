"""The names of a project's files, also those that are no Unicode, with ripgrep and without."""

from __future__ import annotations

import asyncio
import os

import pytest

from core.engine.shared import project_files
from core.engine.shared.project_files import FileList, FileWatcher
from core.errors import ToolFailed
from core.workspace import Workspace


@pytest.mark.parametrize("has_ripgrep", [True, False])
async def test_a_name_that_is_no_unicode_is_one_that_can_be_read_by_it(tmp_path, monkeypatch, has_ripgrep):
    def refuse():
        raise ToolFailed("there is none")

    if not has_ripgrep:
        monkeypatch.setattr("core.engine.shared.project_files.find_program", refuse)
    (tmp_path / "below").mkdir()
    descriptor = os.open(os.fsencode(tmp_path) + b"/below/caf\xe9.py", os.O_CREAT | os.O_WRONLY)
    os.write(descriptor, b"x = 1\n")
    os.close(descriptor)
    (path,) = await FileList(tmp_path).find("caf", limit=5, directories=False, extra=())
    assert Workspace(tmp_path).read_bytes(path, 100) == b"x = 1\n"
    assert path.encode()


FILES = (
    "core/config/default.py",
    "docs/files/list.txt",
    "dist/flat.css",
    "default/readme.md",
    "tests/unit/test_defaults.py",
    "src/models/user.py",
    "user/models.py",
)


@pytest.mark.parametrize(
    ("pattern", "first"),
    [
        ("dflt", "core/config/default.py"),  # the letters in a name, not in "docs/files/list.txt"
        ("default", "core/config/default.py"),  # a file before the directory of that name
        ("tdef", "tests/unit/test_defaults.py"),
        ("models", "user/models.py"),
        ("srcuser", "src/models/user.py"),
        ("defualt", "core/config/default.py"),
    ],
)
async def test_a_name_is_found_by_its_letters_before_a_path_that_has_them_somewhere(tmp_path, pattern, first):
    for path in FILES:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x")
    paths = await FileList(tmp_path).find(pattern, limit=5, directories=False, extra=())
    assert paths[0] == first


async def test_in_a_place_of_the_same_rank_a_file_stands_before_a_directory(tmp_path):
    for path in ("price/a.py", "prices.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x")
    paths = await FileList(tmp_path).find("pric", limit=5, directories=True, extra=())
    assert paths == ("prices.py", "price/", "price/a.py")


@pytest.mark.parametrize("is_recursive", [False, True])
async def test_where_a_whole_tree_can_be_watched_only_its_root_is(tmp_path, monkeypatch, is_recursive):
    asked: list[tuple[set[str], bool]] = []

    def watch(*paths, recursive, **_):
        asked.append((set(paths), recursive))
        (tmp_path / "new").mkdir(exist_ok=True)
        yield {(1, str(tmp_path / "new")), (1, str(tmp_path / "out" / "x"))}
        watcher.stop()

    monkeypatch.setattr("watchfiles.watch", watch)
    monkeypatch.setattr(project_files, "_IS_RECURSIVE", is_recursive)
    (tmp_path / ".gitignore").write_text("out/\n")
    (tmp_path / "src" / "deep").mkdir(parents=True)
    changes: list[tuple[str, ...]] = []
    heard = asyncio.Event()
    watcher = FileWatcher(Workspace(tmp_path), lambda paths: (changes.append(paths), heard.set()))
    watcher.start()
    async with asyncio.timeout(30):
        await heard.wait()
    watcher.stop()
    every = {str(tmp_path), str(tmp_path / "src"), str(tmp_path / "src" / "deep")}
    assert asked[0] == (({str(tmp_path)}, True) if is_recursive else (every, False))
    assert changes[0] == ("new",)
    assert not watcher.is_partial
