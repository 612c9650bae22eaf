"""The package holds all of the program and nothing else; the constraints cover what it needs and name no place."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from core import __version__
from core.config.manual import list_pages
from tests.contract.source_tree import ROOT, project

PIN = re.compile(r"([A-Za-z0-9._-]+)==([0-9][A-Za-z0-9.!+]*)( ; (sys_platform|platform_machine) [a-z0-9_'=! ]+)?")


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def constraint_lines() -> list[str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def pins() -> dict[str, str]:
    matches = [PIN.fullmatch(line) for line in constraint_lines()]
    return {normalised(match[1]): match[2] for match in matches if match}


def requirements() -> list[str]:
    return [*project()["dependencies"], *project()["optional-dependencies"]["dev"]]


def test_every_constraint_is_a_name_and_a_version_and_nothing_else():
    assert [line for line in constraint_lines() if not PIN.fullmatch(line)] == []
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    assert [word for word in ("://", "@", "--", "/") if word in text] == []


def test_a_mac_with_an_intel_processor_gets_a_version_with_a_wheel_for_it():
    # Later releases of cryptography have none, and a build from source needs Rust and OpenSSL.
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert "cryptography==48.0.1 ; platform_machine == 'x86_64' and sys_platform == 'darwin'" in text


def test_every_declared_dependency_is_constrained():
    names = [normalised(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]) for line in requirements()]
    assert [name for name in names if name not in pins()] == []


def test_every_dependency_has_a_lower_bound():
    assert [line for line in requirements() if not re.search(r">=|==", line)] == []


def test_the_only_script_is_the_launcher():
    assert project()["scripts"] == {"agent-tui": "agent_tui:main"}


MAN_PAGE = f"agent_tui_ide-{__version__}.data/data/share/man/man1/agent-tui.1"


def shipped() -> dict[str, bytes]:
    """What the wheel has to hold, by its path in there."""
    contents = {"agent_tui.py": (ROOT / "agent_tui.py").read_bytes()}
    for top in ("core", "tui"):
        files = [path for path in (ROOT / top).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        contents |= {f"agent_tui_app/{path.relative_to(ROOT).as_posix()}": path.read_bytes() for path in files}
    pages = (f"docs/{name}.md" for name in list_pages())
    contents |= {f"agent_tui_app/{page}": (ROOT / page).read_bytes() for page in pages}
    contents[MAN_PAGE] = (ROOT / "docs/man/agent-tui.1").read_bytes()
    return contents


def build(kind: str, source: Path, out: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(out)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    return next(out.iterdir())


def content(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> dict[str, bytes]:
    return content(build("wheel", ROOT, tmp_path_factory.mktemp("wheel")))


def test_the_wheel_holds_every_file_of_the_program_and_no_other(wheel):
    own = {name: data for name, data in wheel.items() if ".dist-info/" not in name}
    assert own.keys() == shipped().keys()
    assert own == shipped()


def test_the_wheel_puts_no_core_and_no_tui_at_the_top_of_site_packages(wheel):
    tops = {name.split("/")[0] for name in wheel}
    assert {top for top in tops if not top.endswith((".dist-info", ".data"))} == {"agent_tui.py", "agent_tui_app"}


def test_the_sdist_builds_the_same_wheel(wheel, tmp_path):
    with tarfile.open(build("sdist", ROOT, tmp_path / "sdist")) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (source,) = (tmp_path / "unpacked").iterdir()
    again = content(build("wheel", source, tmp_path / "wheel"))
    assert again == wheel
