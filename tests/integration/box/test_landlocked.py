from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from core.sandbox.box import BoxRequest, Tier
from core.sandbox.tiers import selection
from core.sandbox.tiers.landlock_box import LandlockBox
from core.sandbox.tiers.project_survey import CopyLimits
from core.sandbox.tiers.selection import try_tier
from tests.support.box_cases import MARK, SYSTEM_PATH, Boxed, cases, place_of
from tests.support.processes import list_processes

PLANTED = "planted-0123456789abcdef"


LOCKED = [uid for tier, uid in cases() if tier is Tier.LANDLOCK]


@pytest.fixture(params=LOCKED)
async def locked(request: pytest.FixtureRequest) -> AsyncIterator[Boxed]:
    with place_of(request.param) as root:
        case = Boxed(Tier.LANDLOCK, request.param, root)
        yield case
        await case.close()


async def test_s1_no_content_outside_the_copy_changes(locked: Boxed):
    outside = [locked.write("work/sibling", "whole\n"), locked.write("home/.profile", "whole\n")]
    project = locked.write("work/project/a", "whole\n")
    words = " ".join(f"echo x > {path}; echo x >> {path}; rm -f {path}; truncate -s 0 {path};" for path in outside)
    ran = await locked.run(
        f"{words} echo x > {project}; echo x > {locked.workspace}/new; echo x > /tmp/new; echo y > a"
    )
    assert [path.read_text() for path in (*outside, project)] == ["whole\n"] * 3
    assert sorted(path.name for path in locked.workspace.iterdir()) == ["a"]
    assert ran.upper is not None
    assert (ran.upper / "a").read_text() == "y\n"


async def test_s2_what_this_tier_can_not_prevent_is_told(locked: Boxed):
    for name in ("a", "b", "sub/c", "d", "e"):
        locked.write(f"work/project/{name}", "whole\n")
    quiet = await locked.run(
        f"echo x > a; chmod 600 b; touch -d 2001-01-01 sub/c; rm d; cat {locked.workspace}/a; ls .."
    )
    assert quiet.exit.notes == ()
    at = locked.workspace
    noisy_run = await locked.run(
        f"chmod 600 {at}/a {at}/b; touch -d 2001-01-01 {at}/sub/c; chmod 700 {at}/sub; echo x > {at}/e"
    )
    changed_paths = "a, b, sub and 1 more"
    note = f"Modes or times of your own files changed while it ran, which this tier can't prevent: {changed_paths}"
    assert noisy_run.exit.notes == (() if locked.uid == 0 else (note,))  # root's commands own nothing
    assert (at / "e").read_text() == "whole\n"


async def test_s5_there_is_no_network_at_all(locked: Boxed):
    with socket.create_server(("127.0.0.1", 0)) as host:
        host.setblocking(False)
        port = host.getsockname()[1]
        script = "import socket\nfor family in (1, 2, 10, 16, 17, 40):\n    try:\n        socket.socket(family, 2)\n"
        script += "        print('OPENED', family)\n    except OSError as error:\n        print(error.errno)\n"
        locked.write("work/project/probe.py", script)
        ran = await locked.run(f"python3 probe.py; exec 3<>/dev/tcp/127.0.0.1/{port}")
        with pytest.raises(BlockingIOError):
            host.accept()
    assert ran.output.split()[:6] == ["97"] * 6


async def test_s7_no_process_outside_can_be_signalled_or_read(locked: Boxed):
    with subprocess.Popen(  # noqa: ASYNC220
        ["/bin/sleep", "60"], user=locked.uid, env={"PLANTED": PLANTED}
    ) as victim:
        ran = await locked.run(
            f"kill -9 {victim.pid}; cat /proc/{victim.pid}/environ /proc/{victim.pid}/mem /proc/{os.getpid()}/environ;"
            "kill -9 $PPID; echo still"
        )
        assert victim.poll() is None
        victim.kill()
    assert PLANTED not in ran.output
    assert os.environ["PATH"] not in ran.output


async def test_n10_nothing_that_outlives_the_box_and_no_process_outside_can_be_reached(locked: Boxed):
    sleep = ["/bin/sleep", "60"]
    own = locked.write("home/own", "x\n")
    with subprocess.Popen(sleep, user=locked.uid) as victim:  # noqa: ASYNC220
        before = (os.getpriority(os.PRIO_PROCESS, victim.pid), os.sched_getaffinity(victim.pid))
        ran = await locked.run(
            f"chmod 4755 {own}; chmod g+s {own};"
            "cp /bin/true mine; chmod 4755 mine; chmod 755 mine && ./mine && echo mine;"
            f"renice 19 {victim.pid}; prlimit --pid {victim.pid} --nofile=3:3; taskset -p 1 {victim.pid};"
            f"ionice -c 3 -p {victim.pid}; chrt -b -p 0 {victim.pid}; nice true && echo nice; mknod disk c 1 3"
        )
        after = (os.getpriority(os.PRIO_PROCESS, victim.pid), os.sched_getaffinity(victim.pid))
        limits = Path(f"/proc/{victim.pid}/limits").read_text()  # noqa: ASYNC240
        victim.kill()
    assert before == after
    assert "Max open files            3 " not in limits
    assert own.stat().st_mode & 0o6000 == 0
    assert {"mine", "nice"} <= set(ran.output.splitlines())
    assert ran.output.count("not permitted") >= (8 if locked.uid else 7)  # root's commands may not even see its limits


@pytest.mark.skipif(os.geteuid() != 0, reason="about root")
async def test_n10_root_has_this_tier_only_with_the_capabilities_to_become_another_user(tmp_path: Path, monkeypatch):
    assert (await try_tier(Tier.LANDLOCK, tmp_path)).ok
    monkeypatch.setattr("core.sandbox.inside.kernel.read_capabilities", lambda: 0)
    trial = await try_tier(Tier.LANDLOCK, tmp_path)
    assert (trial.ok, trial.cure) == (False, selection.NOT_AS_ROOT)


async def test_s11_root_has_nothing_of_root_left(locked: Boxed):
    ran = await locked.run(
        "grep -E 'CapEff|^Seccomp:' /proc/self/status; mknod disk b 254 0; chroot / true;"
        "unshare -Ur true; echo x > /proc/sys/kernel/core_pattern; echo b > /proc/sysrq-trigger; ls -A"
    )
    assert "CapEff:\t0000000000000000" in ran.output
    assert "Seccomp:\t2" in ran.output
    assert ran.output.splitlines()[-1] != "disk"


async def test_k3_credentials_are_refused_and_toolchains_run(locked: Boxed):
    locked.write("home/.ssh/id_ed25519", PLANTED)
    locked.write("home/.cargo/credentials.toml", PLANTED)
    locked.write("state/session.log", PLANTED)
    tool = locked.write("home/.cargo/bin/tool", "#!/bin/sh\necho tool works\n", mode=0o755)
    ran = await locked.run(
        f"cat {locked.home}/.ssh/id_ed25519 {locked.home}/.cargo/credentials.toml {locked.state}/session.log;"
        f"cat /etc/shadow; ls {locked.home} {locked.state}; {tool}; echo kept > ~/mine && cat ~/mine"
    )
    assert PLANTED not in ran.output
    assert "root:" not in ran.output
    # Root's commands run as another user, to whom a closed home is closed.
    assert ran.output.endswith("tool works\nkept\n" if locked.uid else "tool: Permission denied\nkept\n")


async def test_p20_what_is_hidden_or_withheld_is_not_in_the_copy(locked: Boxed):
    locked.write("work/project/.venv/pyvenv.cfg", "home = /usr/bin\n")
    for name in (".env", "inner/file", "data/private/key", ".venv/.env"):
        locked.write(f"work/project/{name}", PLANTED)
    locked.write("data/private/key", PLANTED)
    locked.write("data/set.csv", "1,2\n")
    ran = await locked.run(
        f"cat .env inner/file .venv/.env {locked.workspace}/.env {locked.workspace}/.venv/.env;"
        f"grep -c home {locked.workspace}/.venv/pyvenv.cfg;"
        f"cat {locked.root}/data/set.csv {locked.root}/data/private/key;"
        "rm -rf .env inner; echo mine > .env",
        withheld=(".env", ".venv/.env"),
        hidden=(locked.workspace / "inner", locked.root / "data" / "private"),
        readable=(locked.root / "data",),
    )
    assert PLANTED not in ran.output
    assert "\n1\n1,2\n" in ran.output
    assert ran.upper is not None
    assert list(ran.upper.iterdir()) == []


async def test_p20_no_link_leads_to_what_is_hidden(locked: Boxed):
    locked.write("data/private/key", PLANTED)
    locked.write("data/set.csv", "1,2\n")
    locked.write("elsewhere/notes", "3,4\n")
    for name, target in (("all", "."), ("way", "private"), ("round", "round"), ("notes", "../elsewhere/notes")):
        (locked.root / "data" / name).symlink_to(target)
    (locked.root / "alias").symlink_to("data")
    ran = await locked.run(
        f"cd {locked.root}; cat data/private/key data/all/private/key data/way/key alias/private/key; ls data/private;"
        "cat data/set.csv data/notes",
        hidden=(locked.root / "alias" / "private",),
        readable=(locked.root / "data",),
    )
    assert PLANTED not in ran.output
    assert "key\n" not in ran.output.replace("private/key: Permission denied\n", "")
    assert ran.output.endswith("1,2\n3,4\n")


async def test_s8_survivors_are_ended_with_the_command(locked: Boxed):
    ran = await locked.run(f"(setsid sh -c 'sleep {MARK}9' &) ; (setsid setsid sleep {MARK}9 &); sleep 0.1; echo done")
    assert (ran.code, ran.output) == (0, "done\n")
    assert list_processes(f"sleep {MARK}9") == []


async def test_what_is_too_large_to_copy_is_read_in_place(tmp_path: Path):
    for directory in (tmp_path, *tmp_path.parents[:3]):  # for root's commands, which run as another user
        directory.chmod(0o755)
    if not LOCKED:
        pytest.skip("this kernel has no Landlock of ABI 3; the baseline says whether that is right")
    project, heard = tmp_path / "project", []
    (project / "node_modules" / "dep").mkdir(parents=True)
    (project / "node_modules" / "dep" / "index.js").write_text("module\n")
    (project / ".gitignore").write_text("node_modules\n")
    box = LandlockBox(tmp_path / "state", CopyLimits(ignored_size=4))
    (tmp_path / "state").mkdir()
    command = "cat node_modules/dep/index.js; echo x > node_modules/dep/new"
    running = await box.start(BoxRequest(workspace=project, command=command, env={"PATH": SYSTEM_PATH}), heard.append)
    ended = await running.wait()
    assert "".join(heard).startswith("module\n")
    assert "Permission denied" in "".join(heard)
    assert ended.notes == ("Read-only in this tier, because too large to copy: node_modules",)
    assert list((tmp_path / "state").iterdir()) == []


_HOOK = "import __editable___shop_1_finder; __editable___shop_1_finder.install()\n"
_FINDER = """\
import importlib.util, sys
MAPPING: dict[str, str] = {{'shop': '{}/src/shop'}}
NAMESPACES: dict[str, list[str]] = {{}}
class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        place = MAPPING.get(name)
        return importlib.util.spec_from_file_location(name, place + '/__init__.py') if place else None
def install():
    sys.meta_path.append(Finder)
"""


@pytest.mark.parametrize("style", ["path", "finder"])
async def test_an_editable_installation_gives_the_text_of_the_copy(locked: Boxed, style: str):
    at = locked.workspace
    library = "work/project/.venv/lib/python3.11/site-packages"
    locked.write("work/project/.venv/pyvenv.cfg", "home = /usr/bin\nversion = 3.11\n")
    if style == "path":
        locked.write(f"{library}/__editable__.shop-1.pth", f"{at}/src\n")
    else:
        locked.write(f"{library}/__editable__.shop-1.pth", _HOOK)
        locked.write(f"{library}/__editable___shop_1_finder.py", _FINDER.format(at))
    interpreter = at / ".venv" / "bin" / "python"
    interpreter.parent.mkdir()
    interpreter.symlink_to("/usr/bin/python3")
    locked.write("work/project/src/shop/__init__.py", "TEXT = 'original'\n")
    locked.write("state/layer/src/shop/__init__.py", "TEXT = 'pending'\n")
    env = {**locked.env(), "PATH": f"{at}/.venv/bin:{SYSTEM_PATH}", "VIRTUAL_ENV": str(at / ".venv")}
    script = "import shop; print(shop.TEXT, shop.__file__)"
    ran = await locked.run(f'cd /tmp && python -c "{script}"', env=env, lowers=(locked.state / "layer",))
    assert ran.output.split()[0] == "pending", ran.output
    assert str(at) not in ran.output
    assert ran.exit.unproven == ""


async def test_a_run_that_may_import_the_original_is_no_evidence(locked: Boxed):
    library = "work/project/.venv/lib/python3.11/site-packages"
    locked.write("work/project/.venv/pyvenv.cfg", "home = /usr/bin\n")
    locked.write(f"{library}/shop.pth", "import _shop_loader\n")
    locked.write(f"{library}/_shop_loader.py", f"PLACE = '{locked.workspace}/build'\n")
    assert "import hook _shop_loader" in (await locked.run("echo pytest")).exit.unproven
    assert (await locked.run("npm --version; true")).exit.unproven == ""
