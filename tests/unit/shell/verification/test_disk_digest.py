from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from core.shell.verification.disk_digest import DiskDigest
from core.workspace import Workspace


@pytest.fixture
def root(tmp_path) -> Path:
    for name, text in {"a.py": "x = 1\n", "b/c.py": "y = 2\n", ".gitignore": "out/\n", "out/built": "1\n"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / ".git").mkdir()
    (tmp_path / "link").symlink_to("a.py")
    return tmp_path


def touch(root: Path) -> None:
    os.utime(root / "a.py", ns=(1, 1))


def write_again(root: Path) -> None:
    shutil.copyfile(root / "a.py", root / "copy")
    (root / "copy").replace(root / "a.py")


def change_git(root: Path) -> None:
    (root / ".git" / "index").write_bytes(b"x")


@pytest.mark.parametrize("act", [touch, write_again, change_git])
def test_n27_the_same_content_has_the_same_digest_whatever_its_time(root, act: Callable[[Path], None]):
    digest = DiskDigest(Workspace(root))
    before = digest.compute()
    act(root)
    assert before
    assert digest.compute() == before == DiskDigest(Workspace(root)).compute()


def edit_and_restore_time(root: Path) -> None:
    stats = (root / "a.py").stat()
    (root / "a.py").write_text("x = 2\n")
    os.utime(root / "a.py", ns=(stats.st_atime_ns, stats.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], object]] = {
    "another content of the same size and time": edit_and_restore_time,
    "a new file": lambda root: (root / "new.py").write_text(""),
    "a file that is gone": lambda root: (root / "b/c.py").unlink(),
    "a file with another name": lambda root: (root / "a.py").rename(root / "z.py"),
    "a mode": lambda root: (root / "a.py").chmod(0o755),
    "a link that leads elsewhere": lambda root: ((root / "link").unlink(), (root / "link").symlink_to("b/c.py")),
    "an ignored file": lambda root: (root / "out/built").write_text("22\n"),
    "a new ignored file": lambda root: (root / "out/more").write_text(""),
}


@pytest.mark.parametrize("act", CHANGES.values(), ids=CHANGES)
def test_n27_any_change_on_disk_changes_the_digest(root, act: Callable[[Path], object]):
    digest = DiskDigest(Workspace(root))
    before = digest.compute()
    act(root)
    after = digest.compute()
    assert after != before
    assert after == DiskDigest(Workspace(root)).compute()


@pytest.mark.parametrize("bound", [{"max_entries": 2}, {"max_bytes": 5}])
def test_n27_a_project_over_the_bounds_has_no_digest(root, bound):
    assert DiskDigest(Workspace(root), **bound).compute() == ""
