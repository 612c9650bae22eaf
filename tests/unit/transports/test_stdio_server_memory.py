from __future__ import annotations

import subprocess
import sys

import pytest

from tests.contract.source_tree import ROOT

ARENAS = """
import ctypes, sys, threading
from core.transports import stdio_server

if sys.argv[1] == "shared":
    stdio_server._share_arena()
begin, end = threading.Barrier(4), threading.Barrier(4)

def allocate():
    begin.wait()
    blocks = [bytes(2_000) for _ in range(100)]
    end.wait()

threads = [threading.Thread(target=allocate) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
output = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, output)
libc.fflush(output)
"""


def count_arenas(setting: str) -> int:
    command = [sys.executable, "-c", ARENAS, setting]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=True)
    return run.stdout.count("<heap nr=")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="arenas of glibc")
def test_threads_of_the_engine_share_one_arena():
    if count_arenas("apart") < 2:
        pytest.skip("this C library has no arenas")
    assert count_arenas("shared") == 1
