"""`tests/unit` mirrors `core`: what a test is about is told by the place and the name of its file."""

from __future__ import annotations

from pathlib import Path

from tests.contract.source_tree import ROOT

CORE, UNIT = ROOT / "core", ROOT / "tests" / "unit"


def has_subject(test: Path) -> bool:
    """Whether the file is called `test_<name>.py` or `test_<name>_<aspect>.py` after a module or a package that stands
    at its place in `core`, or after the package there as a whole."""
    package = CORE / test.parent.relative_to(UNIT)
    if not package.is_dir():
        return False
    names = {path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    subject = test.stem.removeprefix("test_")
    return any(subject == name or subject.startswith(f"{name}_") for name in {package.name, *names})


def test_each_unit_test_is_named_after_what_stands_at_its_place_in_core():
    assert [file.relative_to(ROOT).as_posix() for file in UNIT.rglob("test_*.py") if not has_subject(file)] == []


def test_a_file_at_another_place_or_of_another_name_is_noticed():
    assert has_subject(UNIT / "shadow/diff/test_hunks.py")
    assert has_subject(UNIT / "shadow/diff/test_hunks_at_the_end.py")
    assert has_subject(UNIT / "shadow/test_diff_as_a_whole.py")
    assert not has_subject(UNIT / "shadow/test_hunks.py")
    assert not has_subject(UNIT / "nowhere/test_hunks.py")
