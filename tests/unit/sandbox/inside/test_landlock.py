from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from core.sandbox.inside import landlock

ROOT = Path(__file__).parents[4]
CHILD = """
import os, sys
sys.path.insert(0, sys.argv[1])
from core.sandbox.inside import landlock
from core.sandbox.inside.landlock import EVERYTHING, READ, USE
def tried(act):
    try:
        act()
    except OSError as error:
        return error.errno
    return 0
landlock.restrict_self([("/", READ), ("/dev/null", USE), (sys.argv[2], EVERYTHING), ("/no/such", READ)], tcp=False)
"""


def restricted(body: str, place: Path, *arguments: str) -> str:
    argv = [sys.executable, "-I", "-S", "-c", CHILD + body, str(ROOT), str(place), *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(autouse=True)
def _landlock() -> None:
    if landlock.get_abi_version() < 3:
        pytest.skip("this kernel has no Landlock of ABI 3")


def test_s1_writes_stay_below_the_path_that_was_opened(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "kept").write_text("whole")
    body = """
kept = sys.argv[3] + "/kept"
print(tried(lambda: open(sys.argv[2] + "/new", "w").write("x")), tried(lambda: open("/dev/null", "w").write("x")),
      tried(lambda: open(sys.argv[3] + "/new", "w")), tried(lambda: os.truncate(kept, 0)),
      tried(lambda: os.unlink(kept)), tried(lambda: os.rename(kept, sys.argv[2] + "/kept")), open(kept).read())
"""
    assert restricted(body, inside, str(outside)) == "0 0 13 13 13 13 whole"
    assert sorted(path.name for path in outside.iterdir()) == ["kept"]
    assert (inside / "new").read_text() == "x"


def test_s7_signals_stay_inside(tmp_path: Path) -> None:
    if landlock.get_abi_version() < 6:
        pytest.skip("signals are scoped from ABI 6 on")
    bystander = subprocess.Popen(["sleep", "30"])
    try:
        assert restricted("print(tried(lambda: os.kill(int(sys.argv[3]), 15)))", tmp_path, str(bystander.pid)) == "1"
        assert bystander.poll() is None
    finally:
        bystander.send_signal(signal.SIGKILL)
        bystander.wait()


def test_s5_tcp_is_refused_where_the_kernel_can(tmp_path: Path) -> None:
    if landlock.get_abi_version() < 4:
        pytest.skip("TCP is covered from ABI 4 on")
    body = "import socket; print(tried(lambda: socket.socket().connect(('127.0.0.1', 9))))"
    assert restricted(body.replace("; print", "\nprint"), tmp_path) == "13"


def test_it_says_what_is_in_force(tmp_path: Path) -> None:
    body = "print(landlock.restrict_self([]), landlock.get_abi_version(), tried(lambda: os.listdir('/')))"
    version = landlock.get_abi_version()
    assert restricted(body, tmp_path) == f"{version} {version} 13"


def test_it_needs_no_more_than_ctypes_and_struct(tmp_path: Path) -> None:
    loaded = restricted("print(*sys.modules)", tmp_path).split()
    assert not set(loaded) & {"re", "socket", "shutil", "hashlib", "platform", "subprocess", "typing"}
