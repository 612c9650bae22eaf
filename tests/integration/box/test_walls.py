from __future__ import annotations

import os
import pty
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from core.sandbox.box import Tier
from core.sandbox.host_view import TOOLCHAINS
from tests.support.box_cases import ATTEMPT, ROOT, Boxed
from tests.support.terminals import all_of

SECRET = f"sk-planted-{uuid4().hex}"


@contextmanager
def listener(family: socket.AddressFamily, address: str | tuple[str, int]) -> Iterator[socket.socket]:
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.bind(address)
        listening.listen()
        listening.setblocking(False)
        yield listening


def was_reached(listening: socket.socket) -> bool:
    return bool(select.select([listening], [], [], 0)[0])


@contextmanager
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["/bin/sleep", "60"]) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def shared_memory() -> Iterator[None]:
    """A segment that everybody of this machine may read."""
    result = subprocess.run(["ipcmk", "-M", "64", "-p", "0666"], capture_output=True, text=True, check=True)
    try:
        yield
    finally:
        subprocess.run(["ipcrm", "-m", result.stdout.split()[-1]], check=True)


async def test_s5_nothing_leaves_for_the_network_and_loopback_works_inside(boxed: Boxed):
    with listener(socket.AF_INET, ("127.0.0.1", 0)) as host:
        port = host.getsockname()[1]
        probe = ATTEMPT + (
            f"attempt('host loopback', lambda: socket.create_connection(('127.0.0.1', {port}), 2))\n"
            "attempt('tcp', lambda: socket.create_connection(('192.0.2.1', 80), 2))\n"
            "attempt('udp', lambda: socket.socket(2, 2).sendto(b'x', ('192.0.2.1', 53)))\n"
            "attempt('dns', lambda: socket.getaddrinfo('example.com', 80))\n"
            "attempt('icmp', lambda: socket.socket(2, 2, 1).sendto(b'x' * 16, ('192.0.2.1', 0)))\n"
            "attempt('raw', lambda: socket.socket(2, 3, 1))\n"
            "attempt('packet', lambda: socket.socket(17, 3, 0))\n"
            "attempt('vsock', lambda: socket.socket(40, 1))\n"
            "attempt('netlink', lambda: socket.socket(16, 3, 0))\n"
            "inside = socket.create_server(('127.0.0.1', 0))\n"
            "socket.create_connection(inside.getsockname()); print('loopback inside works')\n"
        )
        boxed.write("work/project/probe.py", probe)
        ran = await boxed.run("python3 probe.py; exec 3<>/dev/tcp/192.0.2.1/80")
        assert not was_reached(host)
    assert "WENT THROUGH" not in ran.output
    assert ran.output.count("refused:") == 9
    assert "loopback inside works" in ran.output
    assert "Network is unreachable" in ran.output.splitlines()[-1]


async def test_s6_no_socket_of_the_host_can_be_connected_to(boxed: Boxed):
    boxed.write("work/x")
    places = [boxed.root / "work" / "outside.sock", boxed.home / "agent.sock", boxed.workspace / "dev-server.sock"]
    visible = Path(f"/opt/box-test-{os.getpid()}.sock") if os.geteuid() == 0 else places[0]
    abstract = f"\0box-test-{os.getpid()}"
    with (
        listener(socket.AF_UNIX, str(places[0])) as outside,
        listener(socket.AF_UNIX, str(places[1])) as at_home,
        listener(socket.AF_UNIX, str(places[2])) as within,
        listener(socket.AF_UNIX, abstract) as nameless,
        listener(socket.AF_UNIX, str(visible) if os.geteuid() == 0 else abstract + "2") as elsewhere,
    ):
        for place in (*places, visible):
            place.chmod(0o777)
        probe = ATTEMPT + "".join(
            f"attempt({str(place)!r}, lambda: socket.socket(1, 1).connect({str(place)!r}))\n"
            for place in (*places, visible, "/var/run/docker.sock", "/run/dbus/system_bus_socket")
        )
        probe += f"attempt('abstract', lambda: socket.socket(1, 1).connect({abstract!r}))\n"
        boxed.write("work/project/probe.py", probe)
        ran = await boxed.run("python3 probe.py", readable=(places[0],))
        reached = [was_reached(server_socket) for server_socket in (outside, at_home, within, nameless, elsewhere)]
        if os.geteuid() == 0:
            visible.unlink()
    assert reached == [False] * 5
    assert ran.output.count("refused:") == 7


async def test_s7_processes_of_the_host_can_be_neither_seen_nor_touched(boxed: Boxed):
    with sleeper() as victim:
        probe = ATTEMPT + (
            "import ctypes\n"
            "libc = ctypes.CDLL(None, use_errno=True)\n"
            "def call(*words):\n"
            "    if libc.syscall(*words) < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))\n"
            f"attempt('kill', lambda: os.kill({victim.pid}, 9))\n"
            "attempt('kill all', lambda: os.kill(-1, 0) or call(-1))\n"
            "attempt('ptrace', lambda: call(101 if os.uname().machine == 'x86_64' else 117, 16, 1, 0, 0))\n"
            "attempt('vm_readv', lambda: call(310 if os.uname().machine == 'x86_64' else 270, 1, 0, 0, 0, 0, 0))\n"
            "attempt('mem', lambda: open('/proc/1/mem', 'rb').read(1))\n"
            "attempt('environ', lambda: open('/proc/1/environ', 'rb').read(1))\n"
            f"attempt('host environ', lambda: open('/proc/{victim.pid}/environ', 'rb').read(1))\n"
            "print(len([n for n in os.listdir('/proc') if n.isdigit()]), 'processes')\n"
        )
        boxed.write("work/project/probe.py", probe)
        ran = await boxed.run("exec python3 probe.py")
        assert victim.poll() is None
    assert "WENT THROUGH" not in ran.output
    assert ran.output.count("refused:") == 7
    assert int(ran.output.split()[-2]) <= 3


def test_s10_nothing_reaches_the_users_terminal():
    # The whole runs in a session whose controlling terminal is one of ours.
    attempts = (
        "echo reached >/dev/tty; echo reached >/proc/self/fd/0; for t in /dev/pts/[0-9]*; do echo reached >$t; done;"
        "python3 -c \\\"import fcntl; fcntl.ioctl(0, 0x5412, b'x')\\\"; tty; true"
    )
    program = (
        "import asyncio, os\n"
        "from tests.support.box_cases import Boxed, boxes, place_of\n"
        "OFFERED = boxes()\n"
        "async def main():\n"
        "    for tier in OFFERED:\n"
        "        with place_of(os.geteuid()) as root:\n"
        "            boxed = Boxed(tier, os.geteuid(), root)\n"
        f'            ran = await boxed.run("{attempts}")\n'
        "            await boxed.close()\n"
        "            assert ran.code == 0 and 'not a tty' in ran.output, ran\n"
        "asyncio.run(main())\n"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(
            sys.executable, [sys.executable, "-c", program], {**os.environ, "PYTHONPATH": f"{ROOT}:{_packages()}"}
        )
    terminal_output = all_of(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, terminal_output.decode()
    assert terminal_output == b""


def _packages() -> str:
    return ":".join(path for path in sys.path if path)


async def test_s11_the_walls_cannot_be_taken_down_from_inside(boxed: Boxed):
    probe = ATTEMPT + (
        "import ctypes\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "def call(name, *words):\n"
        "    if getattr(libc, name)(*words) != 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))\n"
        f"ws = {os.fsencode(boxed.workspace)!r}\n"
        "attempt('umount', lambda: call('umount2', ws, 2))\n"
        "attempt('remount', lambda: call('mount', None, b'/', None, 32 | 4096, None))\n"
        "attempt('bind', lambda: call('mount', b'/usr', ws, None, 4096, None))\n"
        "attempt('user namespace', lambda: call('unshare', 0x10000000))\n"
        "attempt('mount namespace', lambda: call('unshare', 0x20000))\n"
        "attempt('chroot', lambda: os.chroot(ws))\n"
        "attempt('device', lambda: os.mknod('disk', 0o60600, os.makedev(254, 0)))\n"
        "attempt('handle', lambda: call('open_by_handle_at', -100, ctypes.create_string_buffer(32), 0))\n"
        "attempt('setuid', lambda: os.setuid(1))\n"
        "attempt('hostname', lambda: open('/proc/sys/kernel/hostname', 'w'))\n"
        "attempt('core pattern', lambda: open('/proc/sys/kernel/core_pattern', 'w'))\n"
        "attempt('sysrq', lambda: open('/proc/sysrq-trigger', 'w'))\n"
    )
    boxed.write("work/project/probe.py", probe)
    ran = await boxed.run("python3 probe.py; unshare -Ur true; grep CapEff /proc/self/status")
    assert "WENT THROUGH" not in ran.output
    assert ran.output.count("refused:") == 12
    assert "unshare failed" in ran.output
    assert "CapEff:\t0000000000000000" in ran.output


async def test_s13_what_the_project_plants_in_its_place_is_not_what_starts_it(boxed: Boxed):
    for name in ("sh", "bash", "bwrap", "git", "python3"):
        boxed.write(f"work/project/{name}", "#!/bin/sh\necho PLANTED\n", mode=0o755)
    env = {**boxed.env(), "PATH": f".:{boxed.env()['PATH']}"}
    ran = await boxed.run("echo plain", env=env)
    assert ran.output == "plain\n"


async def test_s15_secrets_of_the_system_are_masked_and_its_settings_read_only(boxed: Boxed):
    ran = await boxed.run(
        "for f in /etc/shadow /etc/gshadow /proc/kcore /proc/keys; do test -e $f && cat $f; done;"
        "for f in vm/overcommit_memory kernel/hostname; do echo 0 > /proc/sys/$f; done; ls -A /sys /home 2>/dev/null"
    )
    assert "root:" not in ran.output
    assert "/proc/sys/vm/overcommit_memory: Read-only file system" in ran.output
    assert "/proc/sys/kernel/hostname: Read-only file system" in ran.output


async def test_s16_the_layer_cannot_be_reached_by_any_path_that_the_box_shows(boxed: Boxed):
    boxed.write("state/session/log", SECRET)
    ran = await boxed.run(
        f"cat /proc/mounts /proc/self/mountinfo; ls -A {boxed.state}; find / -name log -path '*session*' 2>/dev/null;"
        f"grep -rl {SECRET} {boxed.root} /tmp /var/tmp /run /dev/shm 2>/dev/null"
    )
    assert SECRET not in ran.output
    assert "upperdir=/var" not in ran.output
    assert f"{boxed.state}/session" not in ran.output


async def test_k1_no_process_that_a_command_can_see_has_a_variable_that_was_not_given(own: Boxed, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    ran = await own.run("env; cat /proc/*/environ; cat /proc/*/cmdline; true")
    assert SECRET not in ran.output
    assert f"HOME={own.home}" in ran.output


async def test_k3_credentials_of_the_home_are_not_there_and_toolchains_are(boxed: Boxed):
    for name in (".ssh/id_ed25519", ".aws/credentials", ".netrc", ".cargo/credentials.toml", ".config/gh/hosts.yml"):
        boxed.write(f"home/{name}", SECRET)
    for name in (".cargo/bin/tool", ".local/bin/script", ".pyenv/versions/3/bin/python9"):
        boxed.write(f"home/{name}", "#!/bin/sh\necho tool works\n", mode=0o755)
    ran = await boxed.run(
        f"grep -rl {SECRET} ~; ls -A ~/.ssh ~/.aws; ~/.cargo/bin/tool; ~/.local/bin/script;"
        "~/.pyenv/versions/3/bin/python9;"
        "echo x > ~/.cargo/bin/tool; echo kept > ~/mine && cat ~/mine"
    )
    assert SECRET not in ran.output
    assert "credentials" not in ran.output
    assert ran.output.count("tool works") == 3
    assert "Read-only file system" in ran.output
    assert ran.output.endswith("kept\n")
    assert not (boxed.home / "mine").exists()


async def test_n11_of_toolchains_what_runs_is_there_and_credentials_are_not(boxed: Boxed):
    secrets = (
        ".local/share/uv/credentials/services.toml",
        ".npm-global/etc/npmrc",
        ".npm-global/lib/.npmrc",
        ".dotnet/corefx/cryptography/x509stores/my/A.pfx",
        ".nvm/versions/node/v20/etc/npmrc",
        ".nvm/.git/config",
        ".pyenv/versions/3/pip.conf",
        ".pyenv/plugins/own/.git/config",
        ".volta/tools/image/node/20/etc/npmrc",
        "go/pkg/mod/cache/vcs/abc/config",
        "miniconda3/.condarc",
        "miniconda3/envs/one/pip.conf",
        ".cargo/git/db/dep-1/FETCH_HEAD",
        ".rbenv/versions/3/etc/gemrc",
        ".asdf/installs/nodejs/20/etc/npmrc",
        ".sdkman/etc/config",
        ".local/share/mise/installs/node/20/etc/npmrc",
        ".local/bin/.env",
        ".pyenv/versions/3/id_ed25519",
        ".npm-global/lib/.env.bak",
    )
    tools = (
        ".local/share/uv/tools/a/bin/t",
        ".npm-global/bin/t",
        ".dotnet/tools/t",
        ".nvm/versions/node/v20/bin/t",
        "go/pkg/mod/camlistore.org/t",
        "miniconda3/envs/one/bin/t",
        ".cargo/git/checkouts/dep-1/abc/.git/t",
    )
    for name in secrets:
        boxed.write(f"home/{name}", SECRET)
    for name in tools:
        boxed.write(f"home/{name}", "#!/bin/sh\necho tool works\n", mode=0o755)
    at = boxed.home
    ran = await boxed.run(
        f"cat {' '.join(f'{at}/{name}' for name in secrets)}; {';'.join(f'{at}/{name}' for name in tools)}"
    )
    assert SECRET not in ran.output
    is_closed = boxed.tier is Tier.LANDLOCK and boxed.uid == 0  # another user runs them, to whom a home is closed
    assert ran.output.count("tool works") == (0 if is_closed else len(tools))


async def test_k3_other_peoples_homes_do_not_exist(boxed: Boxed):
    ran = await boxed.run("ls -A /home; ls -A /root; true")
    lines = {line for line in ran.output.splitlines() if not line.startswith("ls: cannot access")}
    assert lines <= {name.partition("/")[0] for name in TOOLCHAINS}


async def test_k6_no_key_of_the_kernel_no_shared_memory_and_no_core_dump_gets_out(boxed: Boxed):
    with shared_memory():
        ran = await boxed.run("ipcs -m; wc -l < /proc/sysvipc/shm; ulimit -c; cat /proc/keys; true")
    assert "666" not in ran.output
    assert {"1", "0"} <= set(ran.output.splitlines())
    assert "keyring" not in ran.output


async def test_a_signal_from_inside_does_not_end_the_one_who_watches(boxed: Boxed):
    ran = await boxed.run("for s in INT TERM HUP KILL STOP USR1 CHLD; do kill -$s 1; done; sleep 0.1; echo still here")
    assert ran.output.endswith("still here\n")
    assert ran.code == 0
