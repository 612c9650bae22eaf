from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from core.sandbox import forward, memory, order, supervise
from core.sandbox.namespaces import refusal

ROOT = Path(__file__).parents[3]
LOAD = "import sys; sys.path.insert(0, sys.argv[1]); import core.sandbox.fork_server; print(*sorted(sys.modules))"


def test_the_server_loads_little():
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LOAD, str(ROOT)], capture_output=True, text=True, check=True
    )
    loaded = set(ran.stdout.split())
    assert not loaded & {"re", "shutil", "socket", "hashlib", "typing", "pathlib", "json", "asyncio", "subprocess"}
    assert {name for name in loaded if name.startswith("core.")} == {
        "core.sandbox",
        *(
            f"core.sandbox.{name}"
            for name in (
                "cgroups",
                "fork_server",
                "forward",
                "kernel",
                "landlock",
                "machine",
                "machine.owning",
                "machine.trees",
                "masking",
                "masking.layer",
                "memory",
                "mounts",
                "order",
                "seccomp",
                "supervise",
                "view",
            )
        ),
    }


def test_a_step_that_is_refused_is_told_with_its_name_and_the_kernels_reason():
    try:
        with supervise.Step("namespaces"):
            raise PermissionError(1, "unshare: Operation not permitted")
    except supervise.StepFailed as failure:
        report = supervise.report_of(failure)
    assert report == ("failed", "namespaces", 1, "unshare: Operation not permitted")
    told = refusal("namespaces", 1, "unshare: Operation not permitted")
    assert told.message == "The box could not be set up: namespaces: unshare: Operation not permitted [EPERM]."
    assert told.code == "box_refused"


def test_an_error_that_no_step_expected_is_told_too():
    assert supervise.report_of(KeyError("x")) == ("failed", "unforeseen", 0, "KeyError: 'x'")


def test_the_memory_of_living_processes_is_counted():
    assert memory.exceeds(memory.everyone(), 1 << 20)
    assert not memory.exceeds([os.getpid()], 1 << 40)


def test_memory_that_processes_share_is_counted_once():
    script = "import os, sys; a = bytearray(b'x') * (64 << 20); [os.fork() for _ in '123'];"
    script += "os.write(1, b'%d\\n' % os.getpid());"
    with subprocess.Popen(
        [sys.executable, "-c", f"{script} sys.stdin.read()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        processes = [int(parent.stdout.readline()) for _ in range(8)]
        assert sum(map(memory.resident, processes)) > 8 * (64 << 20)
        assert not memory.exceeds(processes, 3 * (64 << 20))
        assert memory.exceeds(processes, 64 << 20)
        parent.stdin.close()


def test_the_forwarder_listens_on_loopback_only():
    listening = forward.listen()
    try:
        assert listening.getsockname() == ("127.0.0.1", order.PROXY_PORT)
    finally:
        listening.close()
