from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from core.sandbox.inside import kernel, mounts, seccomp

ROOT = Path(__file__).parents[4]
IN_A_NAMESPACE = """
import os, sys
sys.path.insert(0, {root!r})
from core.sandbox.inside import kernel
from core.sandbox.inside import mounts
user, group = os.geteuid(), os.getegid()
kernel.unshare(0x10000000 | 0x20000)
for table, text in (("setgroups", "deny"), ("uid_map", f"{{user}} {{user}} 1"), ("gid_map", f"{{group}} {{group}} 1")):
    with open(f"/proc/self/{{table}}", "w") as written:
        written.write(text)
kernel.make_mounts_private()
os.chdir({place!r})
opened = [os.open(name, os.O_PATH | os.O_DIRECTORY) for name in ("one", "two", "upper", "work")]
one, two, upper, work = [f"/proc/self/fd/{{each}}".encode() for each in opened]
kernel.attach_mount(mounts.create_by_option_string([one, two], upper, work), b"merged")
print(sorted(os.listdir("merged")))
open("merged/new", "w").close()
"""


def test_layers_are_mounted_by_one_string_where_the_kernel_does_not_take_them_one_by_one(tmp_path: Path):
    for name in ("one", "two", "upper", "work", "merged"):
        (tmp_path / name).mkdir()
    (tmp_path / "one" / "a").touch()
    (tmp_path / "two" / "b").touch()
    program = IN_A_NAMESPACE.format(root=str(ROOT), place=str(tmp_path))
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("['a', 'b']\n", "")
    assert sorted(path.name for path in (tmp_path / "upper").iterdir()) == ["new"]


def test_mounts_below_a_directory_are_found_and_the_directory_itself_is_not_one_of_them():
    below = mounts.list_mounts_below(b"/")
    assert b"/proc" in below
    assert b"/" not in below
    assert mounts.list_mounts_below(b"/pro") == []
    assert all(path.startswith(b"/proc/") for path in mounts.list_mounts_below(b"/proc"))


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("name", ["pivot_root", "keyctl"])
def test_two_tables_of_syscall_numbers_agree(machine: str, name: str):
    assert kernel.find_syscall_number(name, machine) == seccomp.list_denied(machine)[name]


def test_an_architecture_without_numbers_is_named():
    with pytest.raises(OSError, match="no syscall numbers for vax"):
        kernel.find_syscall_number("capset", "vax")


def test_a_refusal_names_the_call_and_the_place():
    with pytest.raises(OSError, match="open_tree /there/is/nothing: No such file"):
        kernel.clone_mount(b"/there/is/nothing")
