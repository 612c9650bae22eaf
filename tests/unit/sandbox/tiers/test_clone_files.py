from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.sandbox.box import BoxRequest
from core.sandbox.tiers import clone_files
from core.sandbox.tiers.clone_files import NO_CLONES, OTHER_VOLUME, CloneCalls, Cloner, get_clone_calls
from core.sandbox.tiers.session_copy import SessionCopies
from tests.unit.sandbox.tiers.trees import show


class Disk:
    """Calls of a system that answers as it is told, and otherwise clones by copying."""

    def __init__(self, refuse: Callable[[bytes], int] = lambda _source: 0) -> None:
        self._refuse = refuse
        self.attempts: list[bytes] = []

    def clone_path(self, source: bytes, target: bytes) -> None:
        self.attempts.append(source.rpartition(b"/")[2])
        if number := self._refuse(source):
            raise OSError(number, os.strerror(number), source)
        if Path(os.fsdecode(source)).is_dir():
            shutil.copytree(os.fsdecode(source), os.fsdecode(target), symlinks=True)
        else:
            shutil.copy2(os.fsdecode(source), os.fsdecode(target))

    def get_calls(self) -> CloneCalls:
        return CloneCalls(clone_path=self.clone_path)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    for name in ("a", "b", "src/one"):
        (root / name).write_text(f"{name}\n")
    (root / "a").chmod(0o755)
    return root


def clone(cloner: Cloner, source: Path) -> tuple[str, Path]:
    target = source.with_name("target")
    return cloner.clone_file(os.fsencode(source), os.fsencode(target)), target


@pytest.mark.parametrize("number", [errno.EXDEV, errno.ENOTSUP, errno.EOPNOTSUPP])
def test_a_disk_that_can_not_clone_is_asked_once_and_its_files_are_copied(project: Path, number: int):
    disk = Disk(lambda _source: number)
    cloner = Cloner(disk.get_calls())
    outcome, target = clone(cloner, project / "a")
    assert (outcome, target.read_text(), target.stat().st_mode & 0o777) == ("copied", "a\n", 0o755)
    assert target.stat().st_mtime_ns == (project / "a").stat().st_mtime_ns
    target.unlink()
    clone(cloner, project / "b")
    assert disk.attempts == [b"a"]
    assert cloner.refusal == (OTHER_VOLUME if number == errno.EXDEV else NO_CLONES)


@pytest.mark.parametrize(("number", "outcome"), [(errno.EDEADLK, "offline"), (errno.EACCES, "unreadable")])
def test_a_file_that_can_not_be_read_becomes_an_empty_one_that_nobody_may_read(
    project: Path, number: int, outcome: str
):
    cloner = Cloner(Disk(lambda _source: number).get_calls())
    result, target = clone(cloner, project / "a")
    assert (result, target.stat().st_size, target.stat().st_mode & 0o777) == (outcome, 0, 0)
    assert cloner.refusal == ""


def test_any_other_failure_is_reported(project: Path):
    with pytest.raises(OSError, match="No space"):
        clone(Cloner(Disk(lambda _source: errno.ENOSPC).get_calls()), project / "a")


def test_a_file_in_the_cloud_that_only_reading_shows_is_offline(project: Path, monkeypatch: pytest.MonkeyPatch):
    def read(_descriptor: int, _size: int) -> bytes:
        raise OSError(errno.EDEADLK, "Resource deadlock avoided")

    monkeypatch.setattr(clone_files.os, "read", read)
    result, target = clone(Cloner(CloneCalls()), project / "a")
    assert (result, target.stat().st_size, target.stat().st_mode & 0o777) == ("offline", 0, 0)


def test_blocks_are_cloned_else_a_range_is_copied_else_bytes(project: Path):
    def refuse(*_: int) -> int:
        raise OSError(errno.EINVAL, "Invalid argument")

    def copy_half(reader: int, writer: int, _size: int) -> int:
        os.write(writer, os.read(reader, 1))
        raise OSError(errno.EIO, "Input/output error")

    for calls in (
        CloneCalls(clone_blocks=lambda reader, writer: print(os.write(writer, os.read(reader, 99)))),
        CloneCalls(clone_blocks=refuse, copy_range=os.copy_file_range),  # type: ignore[arg-type]
        CloneCalls(clone_blocks=refuse, copy_range=refuse),  # type: ignore[arg-type]
        CloneCalls(copy_range=copy_half),
        CloneCalls(),
    ):
        _, target = clone(Cloner(calls), project / "a")
        assert target.read_text() == "a\n"
        target.unlink()


def test_a_session_copy_clones_the_whole_tree_in_one_call_and_then_corrects_it(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    disk = Disk()
    monkeypatch.setattr(clone_files, "get_clone_calls", disk.get_calls)
    layer = tmp_path / "layer"
    layer.mkdir()
    (layer / "b").write_text("pending\n")
    request = BoxRequest(workspace=project, command="", env={}, lowers=(layer,), withheld=("src/one",))
    copies = SessionCopies(tmp_path / "state")
    lease = copies.acquire(request)
    assert disk.attempts == [b"project", b"b"]
    assert (lease.root / "src" / "one").read_bytes() == b""
    shape = show(lease.root)
    assert shape.pop(b"src/one") == ("file", 0, b"")
    assert shape.items() <= show(layer, project).items()
    copies.close()


def test_a_tree_with_a_live_socket_is_cloned_file_by_file_and_offline_files_are_named(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    disk = Disk(lambda source: errno.ENOTSUP if source.endswith(b"project") else errno.EDEADLK * source.endswith(b"/b"))
    monkeypatch.setattr(clone_files, "get_clone_calls", disk.get_calls)
    request = BoxRequest(workspace=project, command="", env={})
    copies = SessionCopies(tmp_path / "state")
    for number in range(2):
        lease = copies.acquire(request)
        assert (lease.root / "src" / "one").read_text() == "src/one\n"
        assert lease.notes == ("Empty for commands, because they are only in iCloud; open them once: b",)
        (lease.root / "b").chmod(0o600)
        upper = tmp_path / f"upper{number}"
        upper.mkdir()
        lease.collect(upper)
        assert list(upper.iterdir()) == []
    copies.close()


def test_this_system_has_its_calls():
    calls = get_clone_calls()
    assert calls.clone_path is None or calls.clone_blocks is None


@pytest.fixture(params=["btrfs", "xfs"])
def cloning_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A file system that can share blocks, in an image."""
    maker, image, mounted = shutil.which(f"mkfs.{request.param}"), tmp_path / "image", tmp_path / "mounted"
    if maker is None or os.geteuid() != 0:
        pytest.skip(f"no mkfs.{request.param}, or not root")
    with image.open("wb") as file:
        file.truncate(400 << 20)
    mounted.mkdir()
    subprocess.run([maker, "-q", image], check=True, capture_output=True)
    if subprocess.run(["mount", "-o", "loop", image, mounted], check=False, capture_output=True).returncode:
        pytest.skip(f"no {request.param} can be mounted here")
    yield mounted
    subprocess.run(["umount", mounted], check=True)


def test_on_a_disk_that_can_clone_a_copy_takes_no_room(cloning_disk: Path):
    project, size = cloning_disk / "project", 64 << 20
    project.mkdir()
    (project / "large").write_bytes(os.urandom(1 << 20) * 64)
    os.sync()
    before = os.statvfs(cloning_disk)
    copies = SessionCopies(cloning_disk / "state")
    lease = copies.acquire(BoxRequest(workspace=project, command="", env={}))
    (lease.root / "new").write_bytes(os.urandom(1 << 20) * 32)
    (cloning_disk / "upper").mkdir()
    lease.collect(cloning_disk / "upper", has_survivors=True)
    assert (cloning_disk / "upper" / "new").stat().st_size == 32 << 20
    os.sync()
    now = os.statvfs(cloning_disk)
    assert (before.f_bavail - now.f_bavail) * before.f_frsize < size
    copies.close()
