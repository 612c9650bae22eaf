"""Hosts that are not as one thinks: WSL's mounts, no locks, a home that can't be read, a project on a foreign drive."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.filesystem import overlay_support
from core.sandbox import host_view
from core.sandbox.box import Tier
from core.sandbox.tiers import selection
from tests.integration.test_containers import Container, find_python
from tests.support import dockerlike
from tests.support.box_tiers import offered
from tests.support.boxes import boxed, command
from tests.support.program import PROGRAM, ROOT

needs_mounts = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="only root can mount what WSL mounts"
)
SECRET = "not to be read by a command"
NO_LOCKS = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
import fcntl
def refuse(*_):
    raise OSError({errno.ENOLCK}, "No locks available")
fcntl.flock = fcntl.lockf = refuse
sys.argv = sys.argv[1:]
import runpy
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        yield Path(directory)


@needs_mounts
@pytest.mark.parametrize("tier", [tier for tier in ("T1", "T2b", "T2c", "T3") if Tier(tier) in offered()])
def test_the_whole_system_mounted_once_more_shows_no_hidden_file(place, tier):
    top = Path(tempfile.mkdtemp(prefix="wslg-", dir="/mnt"))
    alias, project, state = top / "distro", place / "shop", place / "state"
    alias.mkdir()
    project.mkdir()
    state.mkdir(mode=0o700)
    (state / "secret").write_text(SECRET)
    (project / "a.txt").write_text("seen\n")
    words = f"cat a.txt; cat {alias}{state}/secret {alias}{project}/a.txt; ls {alias}/etc; echo made > b.txt"
    # Mounts below the alias propagate there, as under WSL: the root is shared.
    mounts = f'mount --make-rshared / && mount --rbind / {alias} && exec "$@"'
    run = ["unshare", "--mount", "sh", "-c", mounts, "sh", *PROGRAM, "box", "run", "--tier", tier, ".", words]
    try:
        ended = subprocess.run(
            run,
            cwd=project,
            env={**os.environ, "AGENT_TUI_STATE_DIR": str(state)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    finally:
        alias.rmdir()  # the mount was in a namespace of its own; no tree is ever removed here
        top.rmdir()
    assert ended.stdout.startswith("seen\n"), ended.stderr
    assert "created    b.txt" in ended.stderr
    assert SECRET not in ended.stdout
    assert ended.stdout.count("seen") == 1


def test_mounts_of_windows_and_second_views_are_found_in_the_table(monkeypatch):
    mounts = [(b"/", b"ext4"), (b"/mnt/c", b"9p"), (b"/mnt/wslg/distro", b"ext4"), (b"/data", b"ext4")]
    sources = [
        (b"/", b"8:1", b"/"),
        (b"/mnt/c", b"0:50", b"/"),
        (b"/mnt/wslg/distro", b"8:1", b"/"),
        (b"/data", b"8:2", b"/"),
    ]
    monkeypatch.setattr(host_view, "read_mounts", lambda: mounts)
    monkeypatch.setattr(host_view, "read_mount_sources", lambda: sources)
    hidden = [Path("/etc/keys")]
    assert host_view.list_foreign_mounts(hidden, [Path("/srv/shop")]) == [Path("/mnt/c"), Path("/mnt/wslg/distro")]
    opened = host_view.list_foreign_mounts(hidden, [Path("/mnt/wslg/distro/srv/shop")])
    assert opened == [Path("/mnt/c"), Path("/mnt/wslg/distro/etc/keys")]
    assert host_view.list_foreign_mounts([Path("/data/key")], []) == [Path("/mnt/c")]


@pytest.mark.skipif(Tier.BWRAP_COPY not in offered() and Tier.LANDLOCK not in offered(), reason="no tier copies here")
async def test_a_project_on_a_drive_of_windows_gets_a_tier_that_copies(tmp_path, monkeypatch):
    monkeypatch.setattr(selection, "find_file_system_type", lambda path: "9p")
    box, report = await selection.open_box(tmp_path, workspace=tmp_path)
    assert box is not None
    await box.close()
    assert report.tier in {Tier.BWRAP_COPY, Tier.LANDLOCK}
    assert report.reasons[0].reason == "the project is on a file system (9p) that overlays don't support"
    assert overlay_support.can_be_lower("ext4")


def test_a_file_system_without_locks_is_named_and_nothing_is_written(place):
    run = [sys.executable, "-c", NO_LOCKS, PROGRAM[1], "-p", "x", "--model", f"scripted/{place}/none.yaml"]
    environment = {**os.environ, "AGENT_TUI_STATE_DIR": str(place / "state")}
    (place / "shop").mkdir()
    ended = subprocess.run(
        run, cwd=place / "shop", env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 1
    assert "has no locks (No locks available)" in ended.stderr
    assert "AGENT_TUI_STATE_DIR" in ended.stderr
    assert "another agent-tui" not in ended.stderr


@pytest.mark.skipif(not dockerlike.is_possible(), reason="only root can become another user")
def test_a_home_that_can_not_be_read_is_said_by_doctor_too(place):
    user = 1000
    container = Container(place, user)
    home = place / "closed"
    home.mkdir(mode=0o700)
    run = [sys.executable, dockerlike.__file__, "--uid", str(user), find_python(user), PROGRAM[1], "doctor"]
    environment = {
        "PATH": os.defpath,
        "HOME": str(home),
        "AGENT_TUI_STATE_DIR": str(place / "state"),
        "PYTHONPATH": os.pathsep.join([str(ROOT), *(path for path in sys.path if "site-packages" in path)]),
    }
    ended = subprocess.run(
        run, cwd=container.project, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert "unexpected fault" not in ended.stdout + ended.stderr
    assert "the self-test could not" not in ended.stdout
    assert f"{home}/.config/agent-tui/config.toml can't be read: Permission denied." in ended.stdout, ended.stderr


@pytest.mark.skipif(not offered(), reason="no sandbox here")
async def test_root_with_a_closed_umask_gets_its_box(tmp_path):
    before = os.umask(0o077)
    try:
        root = tmp_path / "project"
        root.mkdir()
        (root / "a.txt").write_text("one\n")
        async with boxed(root, command("cat a.txt; echo two > b.txt")) as case:
            await case.turn()
            assert "b.txt" in case.state.changes
    finally:
        os.umask(before)
