"""`tests/unit` mirrors `core`: what a test is about is found by the place of its file, and the other way round."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.source_tree import ROOT

CORE, UNIT = ROOT / "core", ROOT / "tests" / "unit"
FILES = sorted(UNIT.rglob("test_*.py"))


def names_at(package: Path) -> set[str]:
    """What a test of this package can be named after: its modules and packages, and the package as a whole."""
    modules = {each.stem for each in package.glob("*.py")} - {"__init__"}
    packages = {each.name for each in package.iterdir() if (each / "__init__.py").is_file()}
    return modules | packages | {package.name}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(UNIT).as_posix())
def test_a_unit_test_is_named_after_what_stands_at_its_place_in_core(file):
    package = CORE / file.parent.relative_to(UNIT)
    assert package.is_dir(), f"there is no {package.relative_to(ROOT)}: move the test where its module is"
    subject = file.stem.removeprefix("test_")
    known = names_at(package)
    assert any(subject == name or subject.startswith(f"{name}_") for name in known), (
        f"nothing in {package.relative_to(ROOT)} is called that; name it test_<module>.py or test_<module>_<aspect>.py"
    )
