from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.filesystem import name_spelling
from core.filesystem.name_spelling import NameSpelling, fold_spelling, list_respellings, resolve_spelled
from core.filesystem.open_beneath import DIRECTORY

COMPOSED, DECOMPOSED = "\u00e9t\u00e9", "e\u0301te\u0301"


class Folded(SimpleNamespace):
    """The calls of `os` that the module makes, on a file system that ignores case and normal form."""

    def __init__(self, top: Path) -> None:
        super().__init__(calls=0, top=os.fsencode(top))

    def __getattr__(self, name: str):
        return getattr(os, name)

    def _find(self, path, above: bytes) -> bytes:
        self.calls += 1
        for part in os.fsencode(path).split(b"/"):
            directory, key = Path(os.fsdecode(above)), fold_spelling(part)
            names = [os.fsencode(path.name) for path in directory.iterdir()] if directory.is_dir() else []
            above += b"/" + next((name for name in names if fold_spelling(name) == key), part)
        return above

    def _open_path(self, directory: int) -> bytes:
        return os.fsencode(Path(f"/proc/self/fd/{directory}").readlink())

    def stat(self, path, *, dir_fd=None, follow_symlinks=True):
        above = self.top if dir_fd is None else self._open_path(dir_fd)
        return Path(os.fsdecode(self._find(path, above))).stat(follow_symlinks=follow_symlinks)

    def open(self, path, flags, *, dir_fd):
        return os.open(self._find(path, self._open_path(dir_fd)), flags)


@pytest.fixture
def spelling(tmp_path):
    (tmp_path / "Src").mkdir()
    (tmp_path / "Src" / "Main.py").write_text("")
    (tmp_path / "Src" / COMPOSED).write_text("")
    top = os.open(tmp_path, DIRECTORY)
    yield NameSpelling(top, os.fsencode(tmp_path))
    os.close(top)


@pytest.fixture
def folded(tmp_path, monkeypatch) -> Folded:
    calls = Folded(tmp_path)
    monkeypatch.setattr(name_spelling, "os", calls)
    return calls


@pytest.mark.parametrize("pair", [("Makefile", "MAKEFILE"), ("stra\u00dfe", "STRASSE"), (COMPOSED, DECOMPOSED.upper())])
def test_the_key_of_a_name_is_the_same_in_all_its_spellings(pair):
    assert fold_spelling(pair[0].encode()) == fold_spelling(pair[1].encode())
    assert fold_spelling(pair[0].encode() + b"\xff") != fold_spelling(pair[1].encode())


def test_a_name_without_case_or_marks_has_no_other_spelling():
    assert list_respellings(b"2024-01") == []
    assert list_respellings(b"a.B") == [b"A.b"]
    assert list_respellings(COMPOSED.encode()) == [COMPOSED.encode().swapcase(), DECOMPOSED.encode()]


def test_where_case_counts_every_name_remains(spelling):
    assert not spelling.folds(b"Src")
    assert spelling.spell(b"Src", b"main.PY") == b"main.PY"
    assert spelling.is_exact(b"Src/main.PY")


def test_a_directory_is_probed_once(spelling, monkeypatch):
    assert spelling.is_exact(b"Src/Main.py")
    monkeypatch.setattr(name_spelling, "os", SimpleNamespace())  # any call would fail
    assert spelling.is_exact(b"Src/Main.py")
    assert spelling.is_exact(b"Src/other")
    assert not spelling.folds(b"Src")


def test_two_links_whose_names_differ_by_case_do_not_look_like_folding(tmp_path):
    (tmp_path / "one").write_text("")
    (tmp_path / "ONE").hardlink_to(tmp_path / "one")
    top = os.open(tmp_path, DIRECTORY)
    try:
        assert NameSpelling(top, os.fsencode(tmp_path)).is_exact(b"one")
    finally:
        os.close(top)


def test_a_name_gets_its_spelling_on_disk(spelling, folded):
    assert spelling.folds(b"")
    assert spelling.spell(b"", b"SRC") == b"Src"
    assert spelling.spell(b"Src", b"MAIN.PY") == b"Main.py"
    assert spelling.spell(b"Src", DECOMPOSED.upper().encode()) == COMPOSED.encode()
    assert spelling.spell(b"Src", b"New.py") == b"New.py"
    assert spelling.spell(b"Src", b"..") == b".."
    assert not spelling.is_exact(b"Src/Main.py")


def test_a_directory_without_letters_is_like_the_one_above_it(spelling, folded, tmp_path):
    (tmp_path / "Src" / "2024").mkdir()
    assert spelling.folds(b"Src/2024")
    assert spelling.folds(b"Src/2024/missing")


def test_a_changed_directory_is_listed_again(spelling, folded, tmp_path):
    os.utime(tmp_path / "Src", (1, 1))
    assert spelling.spell(b"Src", b"MAIN.PY") == b"Main.py"
    (tmp_path / "Src" / "Main.py").rename(tmp_path / "Src" / "mAIN.py")
    assert spelling.spell(b"Src", b"MAIN.PY") == b"mAIN.py"


def test_a_short_name_is_recognised_by_its_inode(spelling, folded, monkeypatch):
    found = folded._find
    monkeypatch.setattr(folded, "_find", lambda path, above: found(path.replace(b"MAIN~1", b"Main"), above))
    assert spelling.spell(b"Src", b"MAIN~1.PY") == b"Main.py"


def test_a_file_that_no_entry_can_be_is_refused(spelling, folded, monkeypatch):
    monkeypatch.setattr(name_spelling, "_list_entries", lambda directory: frozenset({b"other"}))
    with pytest.raises(FileNotFoundError):
        spelling.spell(b"Src", b"MAIN.PY")


def test_a_real_path_is_that_of_pathlib_where_case_counts(tmp_path):
    (tmp_path / "link").symlink_to("Src")
    (tmp_path / "Src").mkdir()
    for path in (tmp_path / "link", tmp_path / "missing" / "Name", Path("/")):
        assert resolve_spelled(path) == path.resolve()
    with pytest.raises(FileNotFoundError):
        resolve_spelled(tmp_path / "src", strict=True)
