from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from core.sandbox.inside import init_process, messages, port_forward, processes
from core.sandbox.tiers.boxed_process import explain_setup_failure

ROOT = Path(__file__).parents[4]
LOAD = (
    "import sys; sys.path.insert(0, sys.argv[1]); import core.sandbox.inside.fork_server; print(*sorted(sys.modules))"
)


def test_the_server_loads_little():
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LOAD, str(ROOT)], capture_output=True, text=True, check=True
    )
    loaded = set(ran.stdout.split())
    assert not loaded & {"re", "shutil", "socket", "hashlib", "typing", "pathlib", "json", "asyncio", "subprocess"}
    assert {name for name in loaded if name.startswith("core.")} == {
        "core.filesystem",
        "core.filesystem.mount_table",  # which imports nothing
        "core.sandbox",
        *(
            f"core.sandbox.{name}"
            for name in (
                "inside",
                "inside.directory_renames",
                "inside.fork_server",
                "inside.init_process",
                "inside.kernel",
                "inside.landlock",
                "inside.live_edits",
                "inside.messages",
                "inside.mounts",
                "inside.network_process",
                "inside.port_forward",
                "inside.processes",
                "inside.root_filesystem",
                "inside.seccomp",
            )
        ),
    }


def test_a_step_that_is_refused_is_told_with_its_name_and_the_kernels_reason():
    try:
        with init_process.name_step("namespaces"):
            raise PermissionError(1, "unshare: Operation not permitted")
    except init_process.SetupStepFailed as failure:
        report = init_process.build_failure_report(failure)
    assert report == ("failed", "namespaces", 1, "unshare: Operation not permitted")
    error = explain_setup_failure("namespaces", 1, "unshare: Operation not permitted")
    assert error.message == "The sandbox could not be set up: namespaces: unshare: Operation not permitted [EPERM]."
    assert error.code == "box_refused"


def test_an_error_that_no_step_expected_is_told_too():
    assert init_process.build_failure_report(KeyError("x")) == ("failed", "unforeseen", 0, "KeyError: 'x'")


def test_the_memory_of_living_processes_is_counted():
    assert processes.exceeds_memory(processes.list_processes(), 1 << 20)
    assert not processes.exceeds_memory([os.getpid()], 1 << 40)


def test_memory_that_processes_share_is_counted_once():
    script = "import os, sys; a = bytearray(b'x') * (64 << 20); [os.fork() for _ in '123'];"
    script += "os.write(1, b'%d\\n' % os.getpid());"
    with subprocess.Popen(
        [sys.executable, "-c", f"{script} sys.stdin.read()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        pids = [int(parent.stdout.readline()) for _ in range(8)]
        assert sum(map(processes.read_resident_bytes, pids)) > 8 * (64 << 20)
        assert not processes.exceeds_memory(pids, 3 * (64 << 20))
        assert processes.exceeds_memory(pids, 64 << 20)
        parent.stdin.close()


def test_the_forwarder_listens_on_loopback_only_and_where_it_is_told(tmp_path):
    path = str(tmp_path / "x" / "s.sock")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    listeners = port_forward.open_listeners([(port, b"", b"one"), (0, path.encode(), b"two")], has_own_network=True)
    try:
        places = [listener.listening.getsockname() for listener in listeners]
        assert places == [("127.0.0.1", messages.PROXY_PORT), ("127.0.0.1", port), path]
        assert [listener.head for listener in listeners] == [b"", b"one", b"two"]
    finally:
        for listener in listeners:
            listener.listening.close()
