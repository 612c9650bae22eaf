from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from core.processes import ProcessFamily, find_marked_processes, is_process_alive, kill_process, list_descendants

SLEEPER = (sys.executable, "-S", "-c", "import time; print('up', flush=True); time.sleep(300)")
# Its child leads a session of its own, and outlives it.
PARENT = f"""
import subprocess, sys
child = subprocess.Popen({SLEEPER!r}, start_new_session=True, stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def sleeper():
    process = subprocess.Popen(SLEEPER, stdout=subprocess.PIPE, env={"TEST_MARK": str(os.getpid())})
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_process_is_alive_until_it_has_ended(sleeper):
    assert is_process_alive(os.getpid())
    assert is_process_alive(1)  # another user's, too
    assert is_process_alive(sleeper.pid)
    sleeper.kill()
    sleeper.wait()
    assert not is_process_alive(sleeper.pid)


@pytest.mark.parametrize("pid", [0, -1, 1 << 40])
def test_what_is_no_process_is_not_alive(pid):
    assert not is_process_alive(pid)


def test_marked_processes_and_descendants_are_listed(sleeper):
    assert [process.pid for process in find_marked_processes("TEST_MARK", str(os.getpid()))] == [sleeper.pid]
    assert sleeper.pid in {process.pid for process in list_descendants(os.getpid())}
    kill_process(psutil.Process(sleeper.pid))
    assert sleeper.wait() == -9
    assert list(list_descendants(sleeper.pid)) == []


def test_a_family_has_a_child_that_left_the_session_and_lost_its_parent():
    family = ProcessFamily()
    parent = subprocess.Popen(
        [sys.executable, "-S", "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    family.add(parent.pid)
    child = int(parent.stdout.readline())
    family.look()
    parent.communicate()
    assert [process.pid for process in family.list_living()] == [child]
    child_process = psutil.Process(child)
    kill_process(child_process)
    child_process.wait(timeout=30)
    assert family.list_living() == []


def test_a_stranger_does_not_join_a_family(sleeper):
    family = ProcessFamily()
    family.add(sleeper.pid)
    with subprocess.Popen(SLEEPER, stdout=subprocess.PIPE, start_new_session=True) as stranger:
        stranger.stdout.readline()
        family.look()
        members = {process.pid for process in family.list_living()}
        stranger.kill()
    assert members == {sleeper.pid}
