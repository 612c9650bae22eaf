from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.errors import ToolFailed
from core.sandbox.box import BoxService, Tier
from tests.support.box_cases import ORDINARY, Boxed, is_whiteout, ordinary_python, place_of


@contextmanager
def mounted(place: Path) -> Iterator[None]:
    """Another file system at a place; only for root."""
    subprocess.run(["mount", "-t", "tmpfs", "box-test", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def own_tmp(boxed: Boxed) -> Path:
    """A workspace directly in /tmp, for the user."""
    place = Path(f"/tmp/box-test-{os.getpid()}-{boxed.root.name}")
    place.mkdir(mode=0o755)
    os.chown(place, boxed.uid, boxed.uid)
    return place


async def test_a_workspace_below_the_home_is_seen_while_the_rest_of_the_home_is_not(boxed: Boxed):
    boxed.write("home/code/app/main.py", "print('main')\n")
    boxed.write("home/code/other/secret.txt", "other\n")
    ran = await boxed.run("pwd; python3 main.py; ls -A ~ ~/code; echo n > new", workspace=boxed.home / "code" / "app")
    assert ran.code == 0
    assert "main\n" in ran.output
    assert "other" not in ran.output
    assert ran.upper is not None
    assert (ran.upper / "new").read_text() == "n\n"
    assert not (boxed.home / "code" / "app" / "new").exists()


async def test_a_workspace_in_tmp_is_seen_while_the_rest_of_tmp_is_not(boxed: Boxed):
    place = own_tmp(boxed)
    try:
        (place / "here.txt").write_text("here\n")
        ran = await boxed.run("cat here.txt; ls -A /tmp; echo x > /tmp/fresh; echo n > new", workspace=place)
    finally:
        (place / "here.txt").unlink()
        place.rmdir()
    assert (ran.code, ran.output) == (0, f"here\n{place.name}\n")


async def test_a_home_that_is_reached_through_a_link_works(boxed: Boxed):
    link = boxed.root / "linked-home"
    link.symlink_to(boxed.home)
    boxed.write("home/.ssh/id", "key\n")
    ran = await boxed.run("echo x > ~/file && cat ~/file; ls -A ~/.ssh", env={**boxed.env(), "HOME": str(link)})
    assert ran.output.startswith("x\nls: cannot access")


async def test_a_virtual_environment_whose_interpreter_lies_in_the_home_runs(boxed: Boxed):
    python = interpreter()
    toolchain = boxed.home / ".local/share/uv/python/cpython/bin"
    toolchain.mkdir(parents=True)
    (toolchain / "python3").symlink_to(python)
    boxed.give(toolchain)
    boxed.write("work/project/.venv/pyvenv.cfg", f"home = {toolchain}\ninclude-system-site-packages = false\n")
    (boxed.workspace / ".venv" / "bin").mkdir()
    (boxed.workspace / ".venv" / "bin" / "python").symlink_to(toolchain / "python3")
    ran = await boxed.run(". /dev/null; .venv/bin/python -c 'import sys; print(sys.prefix)'", readable=readable(python))
    assert ran.output == f"{boxed.workspace}/.venv\n"


def interpreter() -> Path:
    return Path(ordinary_python() or sys.executable).resolve()


def readable(python: Path) -> tuple[Path, ...]:
    """The installation of an interpreter, where it lies in a place that is fresh in the box."""
    installed = python.parents[1]
    return () if installed in {Path("/usr"), Path("/usr/local")} else (installed,)


async def test_an_active_virtual_environment_elsewhere_is_readable(boxed: Boxed):
    boxed.write("home/envs/mine/pyvenv.cfg", "")
    boxed.write("home/envs/mine/bin/tool", "#!/bin/sh\necho tool\n", mode=0o755)
    env = {**boxed.env(), "VIRTUAL_ENV": str(boxed.home / "envs" / "mine")}
    ran = await boxed.run('"$VIRTUAL_ENV"/bin/tool; ls ~/envs', env=env)
    assert ran.output == "tool\nmine\n"


async def test_the_cache_stays_from_one_command_to_the_next(boxed: Boxed):
    if boxed.tier is Tier.LANDLOCK and boxed.uid == 0:
        pytest.skip("root's commands run as another user there, who has no cache (docs/safety.md)")
    cache = boxed.root / "state" / "cache"
    cache.mkdir()
    boxed.give(cache)
    await boxed.run("mkdir -p ~/.cache/pip && echo wheel > ~/.cache/pip/w", cache=cache)
    ran = await boxed.run("cat ~/.cache/pip/w", cache=cache)
    assert ran.output == "wheel\n"
    assert (cache / "pip" / "w").read_text() == "wheel\n"


def list_names(path: str) -> list[str]:
    return [entry.name for entry in Path(path).iterdir()]


async def test_tmp_is_the_directory_that_was_given_and_not_the_machines(boxed: Boxed):
    if not boxed.tier.mounts_cache:
        pytest.skip("a tier without mounts has a /tmp for each command (docs/safety.md)")
    temporary = boxed.root / "state" / "tmp"
    temporary.mkdir(mode=0o700)
    boxed.give(temporary)
    await boxed.run("echo 'print(42)' > /tmp/made.py; cp /bin/sh /tmp/sh; chmod u+s /tmp/sh", temporary=temporary)
    ran = await boxed.run("python3 /tmp/made.py; ls /tmp | grep made; mktemp -u", temporary=temporary)
    assert ran.output.startswith("42\nmade.py\n/tmp/tmp.")
    assert "made.py" not in list_names("/tmp")
    assert (await boxed.run("ls -A /tmp | grep made")).output == ""


async def test_hidden_paths_do_not_exist_and_readable_ones_cannot_be_written(boxed: Boxed):
    boxed.write("work/project/inner/file", "inner\n")
    boxed.write("data/set.csv", "1,2\n")
    ran = await boxed.run(
        f"ls -A inner; cat inner/file; cat {boxed.root}/data/set.csv; echo x > {boxed.root}/data/set.csv",
        hidden=(boxed.workspace / "inner",),
        readable=(boxed.root / "data",),
    )
    assert "inner\n" not in ran.output
    assert "1,2\n" in ran.output
    assert "Read-only file system" in ran.output


async def test_a_terminal_of_its_own_works_inside(boxed: Boxed):
    ran = await boxed.run("script -qec 'tty; test -t 0 && echo is a terminal' /dev/null")
    assert "/dev/pts/0" in ran.output
    assert "is a terminal" in ran.output


async def test_the_devices_of_every_day_work(boxed: Boxed):
    ran = await boxed.run(
        "head -c 4 /dev/zero | wc -c; head -c 4 /dev/urandom | wc -c; echo x > /dev/null; echo out > /dev/stdout;"
        "echo err > /dev/stderr; cat <(echo substituted); echo shm > /dev/shm/x && cat /dev/shm/x;"
        "python3 -c 'import multiprocessing as m; print(m.Pool(2).map(abs, [-1, -2]))'"
    )
    assert ran.output == "4\n4\nout\nerr\nsubstituted\nshm\n[1, 2]\n"


async def test_git_and_sqlite_work_inside(boxed: Boxed):
    boxed.write("work/project/a.txt", "a\n")
    who = "git -c user.name=T -c user.email=t@example.invalid"
    ran = await boxed.run(
        f"git init -q . && git add . && {who} commit -qm one && git log --format=%s && git status -s;"
        'python3 -c \'import sqlite3; c = sqlite3.connect("d.db"); c.execute("pragma journal_mode=wal");'
        'c.execute("create table t(x)"); c.execute("insert into t values(7)"); c.commit();'
        'print(c.execute("select x from t").fetchall())\''
    )
    assert ran.output == "one\n[(7,)]\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
async def test_p19_what_is_mounted_inside_the_workspace_is_there_and_read_only(own: Boxed):
    inside = own.workspace / "volume"
    inside.mkdir()
    with mounted(inside):
        (inside / "data").write_text("data\n")
        (inside / "deep").mkdir()
        ran = await own.run("cat volume/data; echo x > volume/data; echo y > other")
        assert (inside / "data").read_text() == "data\n"
    assert ran.output.startswith("data\n")
    assert "Read-only file system" in ran.output
    assert ran.upper is not None
    assert (ran.upper / "other").read_text() == "y\n"


@pytest.mark.skipif(os.geteuid() != 0 or not ordinary_python(), reason="only root can mount, and become another user")
async def test_p19_an_ordinary_user_is_told_why_a_mount_inside_the_workspace_does_not_work():
    with place_of(ORDINARY) as root:
        boxed = Boxed(Tier.NAMESPACES, ORDINARY, root)
        inside = boxed.workspace / "volume"
        inside.mkdir()
        with mounted(inside), pytest.raises(AssertionError, match="is a mount point inside the workspace"):
            await boxed.run("true")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can work on what belongs to others")
def find_owner(path: str) -> int:
    return Path(path).stat().st_uid


async def test_root_can_work_on_a_project_of_another_user_and_keeps_its_owner(own: Boxed):
    boxed = Boxed(own.tier, ORDINARY, own.root)
    own.write("work/project/a.txt", "a\n")
    for place in (own.workspace, own.workspace / "a.txt"):
        os.chown(place, ORDINARY, ORDINARY)
    assert boxed.workspace == own.workspace
    owner = find_owner(os.devnull)
    ran = await own.run(
        "echo b >> a.txt && cat a.txt && chmod 600 a.txt && rm -f gone && touch new && stat -c %u a.txt"
    )
    assert (ran.code, ran.output) == (0, f"a\nb\n{ORDINARY}\n")
    assert ran.upper is not None
    assert (ran.upper / "a.txt").stat().st_uid == ORDINARY
    assert find_owner(os.devnull) == owner  # it was the command's standard input


async def test_the_proxy_is_the_only_way_out_when_there_is_one(own: Boxed):
    socket_path = own.root / "state" / "proxy.sock"
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        asked.append(request.split(b"\r\n")[0])
        body = b"x" * 2_000_000
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(body), body))
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(answer, socket_path)
    fetch = (
        "import urllib.request as u, threading\n"
        "def get(n): got.append(len(u.urlopen(f'http://allowed.example/{n}').read()))\n"
        "got = []\n"
        "threads = [threading.Thread(target=get, args=(n,)) for n in range(8)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]; print(got)\n"
    )
    own.write("work/project/fetch.py", fetch)
    async with server:
        killed = "[ $$ -lt 100 ] && kill -9 -1; true"  # never outside of a box
        ran = await own.run(f"python3 fetch.py; ls {socket_path}; {killed}", proxy=socket_path)
        without = await own.run("python3 fetch.py 2>&1 | tail -1")
    assert str([2_000_000] * 8) in ran.output
    assert sorted(asked) == sorted(b"GET http://allowed.example/%d HTTP/1.1" % n for n in range(8))
    assert "cannot access" in ran.output
    assert "[]" in without.output


async def test_a_service_of_the_machine_is_at_its_port_and_its_socket_for_every_user(boxed: Boxed):
    socket_path = boxed.root / "state" / "proxy.sock"
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.read())
        writer.write(b"x" * 300_000)
        await writer.drain()
        writer.close()

    services = (
        BoxService(head=b"one\r\n", port=443),
        BoxService(head=b"two\r\n", path="/run/two.sock", env={"TWO": "/run/two.sock"}),
        BoxService(head=b"three\r\n", path="/tmp/.three/3"),
    )
    attempt = (
        "import os, socket\n"
        "for place in (('127.0.0.1', 443), os.environ['TWO'], '/tmp/.three/3'):\n"
        "    family = socket.AF_INET if isinstance(place, tuple) else socket.AF_UNIX\n"
        "    with socket.socket(family) as asked:\n"
        "        asked.connect(place), asked.sendall(b'hello'), asked.shutdown(socket.SHUT_WR)\n"
        "        print(sum(len(piece) for piece in iter(lambda: asked.recv(9999), b'')))\n"
    )
    boxed.write("work/project/attempt.py", attempt)
    async with await asyncio.start_unix_server(answer, socket_path):
        boxed.give(socket_path)
        ran = await boxed.run("python3 attempt.py", proxy=socket_path, services=services)
        without = await boxed.run("TWO=/run/two.sock python3 attempt.py 2>&1 | tail -1")
    assert ran.output == "300000\n" * 3
    assert heads == [b"one\r\nhello", b"two\r\nhello", b"three\r\nhello"]
    assert "refused" in without.output


async def test_deleting_what_a_lower_layer_made_is_a_whiteout(boxed: Boxed):
    setup = await boxed.run("mkdir -p build && echo x > build/out")
    assert setup.upper is not None
    ran = await boxed.run("rm -r build; ls -A", lowers=(setup.upper,))
    assert (ran.code, ran.output) == (0, "")
    assert ran.upper is not None
    assert is_whiteout(ran.upper / "build")


async def test_a_workspace_that_is_gone_is_named():
    with place_of(os.geteuid()) as root:
        own = Boxed(Tier.NAMESPACES, os.geteuid(), root)
        with pytest.raises(ToolFailed, match="no-such-project"):
            await own.run("true", workspace=root / "no-such-project")


async def test_a_directory_that_is_lent_is_written_for_good_where_it_is_shown_and_hides_what_lies_there(boxed: Boxed):
    if boxed.tier is Tier.LANDLOCK:
        pytest.skip("T3 shows everything at its own place: no agent is started in it")
    boxed.write("home/.agent/secret", "the user's\n")
    boxed.write("lent/token", "old\n")
    boxed.give(boxed.root / "lent")
    lent = (boxed.root / "lent", boxed.home / ".agent")
    ran = await boxed.run("cat ~/.agent/token; ls -A ~/.agent; echo new > ~/.agent/token", writable=(lent,))
    assert (ran.code, ran.output) == (0, "old\ntoken\n")
    assert (boxed.root / "lent" / "token").read_text() == "new\n"
    assert (boxed.home / ".agent" / "secret").read_text() == "the user's\n"
    again = await boxed.run("ls -A ~")
    assert ".agent" not in again.output
