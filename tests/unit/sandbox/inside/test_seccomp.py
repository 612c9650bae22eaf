from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from core.sandbox.inside import seccomp

ROOT = Path(__file__).parents[4]
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
from core.sandbox.inside import seccomp
modules = sorted(sys.modules)
import ctypes, json
families = tuple(json.loads(sys.argv[2]))
seccomp.install_filter(seccomp.build_filter(families))
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(number, *values):
    ctypes.set_errno(0)
    got = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(value) for value in values))
    return ctypes.get_errno() if got < 0 else 0
answers = {str(case): call(*case) for case in json.loads(sys.argv[3])}
print(json.dumps({"answers": answers, "modules": modules}))
"""
X86 = os.uname().machine == "x86_64"


def under_filter(*calls: tuple[int, ...], families: tuple[int, ...] = seccomp.FAMILIES) -> tuple[list[int], set[str]]:
    argv = [sys.executable, "-I", "-S", "-c", CHILD, str(ROOT), json.dumps(families), json.dumps(calls)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=20)
    report = json.loads(done.stdout)
    return [report["answers"][str(list(case))] for case in calls], set(report["modules"])


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_numbers_are_those_of_the_kernel_headers(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip("no kernel headers here")
    text = HEADERS[machine].read_text()
    known = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\b", text)}
    newer = {"open_tree_attr"}
    wrong = {
        name: (number, known.get(name))
        for name, number in seccomp.list_denied(machine).items()
        if known.get(name) != number and name not in newer
    }
    assert wrong == {}
    both = {name: (number, number) for name, number in seccomp._PIDFD_CALLS.items()} | {"openat2": (437, 437)}
    others = seccomp._CHECKED_CALLS | seccomp._SYSTEM_V_CALLS | seccomp._MODE_CALLS | seccomp._PROCESS_CALLS | both
    checked = {name: numbers[machine == "aarch64"] for name, numbers in others.items()}
    lacking = {"fchmodat2"} - known.keys()  # since Linux 6.6
    assert checked == {name: known.get(name) for name in checked} | {name: checked[name] for name in lacking}


def test_an_unknown_architecture_is_an_error_that_names_it() -> None:
    with pytest.raises(OSError, match="no syscall numbers for mips"):
        seccomp.build_filter(machine="mips")


def test_s11_every_denied_call_is_refused_whoever_calls() -> None:
    numbers = seccomp.list_denied()
    answers, _ = under_filter(*((number, 0, 0, 0, 0, 0) for number in numbers.values()))
    assert dict(zip(numbers, answers, strict=True)) == dict.fromkeys(numbers, 1)


@pytest.mark.skipif(not X86, reason="numbers of x86_64")
def test_s11_namespaces_and_typed_terminal_input_are_refused_by_argument() -> None:
    new_user, clone3, tiocsti = 0x10000000, 435, 0x5412
    answers, _ = under_filter((56, new_user | 17, 0, 0, 0, 0), (clone3, 0, 0), (16, 0, tiocsti, 0), (16, 99, 0x5413, 0))
    assert answers == [1, 38, 1, 9]


@pytest.mark.skipif(not X86, reason="numbers of x86_64")
def test_s5_only_the_families_that_were_named_can_be_opened() -> None:
    netlink, packet, vsock, alg = 16, 17, 40, 38
    calls = [(41, family, 2, 0) for family in (1, 2, 10, netlink, packet, vsock, alg)]
    assert under_filter(*calls)[0] == [0, 0, 0, 97, 97, 97, 97]
    assert under_filter(*calls, families=())[0] == [97] * 7


@pytest.mark.skipif(not X86, reason="numbers of x86_64")
def test_s6_without_unix_sockets_no_half_of_a_datagram_pair_reaches_one() -> None:
    stream, datagram, nonblocking, bad_address = 1, 2, 0o4000, 14
    calls = [(53, 1, kind, 0, 0) for kind in (stream, stream | nonblocking, datagram, datagram | nonblocking)]
    assert under_filter(*calls, families=())[0] == [bad_address, bad_address, 97, 97]
    assert under_filter(*calls)[0] == [bad_address] * 4


@pytest.mark.skipif(not X86, reason="numbers of x86_64")
def test_k6_without_unix_sockets_nothing_is_shared_by_a_name_of_the_machine() -> None:
    shmget, semget, msgget = 29, 64, 68
    calls = [(number, 0, 1, 0o1600) for number in (shmget, semget, msgget)]
    assert under_filter(*calls, families=())[0] == [1, 1, 1]


@pytest.mark.skipif(not X86, reason="numbers of x86_64")
def test_n10_without_a_view_no_setuid_bit_no_device_and_no_other_process() -> None:
    refused = [
        *((90, 0, mode) for mode in (0o4777, 0o2755, 0o6000)),
        *((91, -1, 0o4777), (268, -1, 0, 0o4777, 0), (452, -1, 0, 0o4777, 0), (2, 0, 0o100, 0o4755), (85, 0, 0o4755)),
        *((257, -100, 0, 0o100, 0o4755), (133, 0, 0o104755, 0), (133, 0, 0o020666, 0), (259, -100, 0, 0o060600, 0)),
        *((302, 1, 7, 0, 0), (141, 0, 1, 19), (141, 2, 0, 19), (251, 1, 1, 0), (251, 3, 0, 0), (203, 1, 8, 0)),
        *((314, 1, 0, 0), (142, 1, 0), (144, 1, 0, 0), (434, 1, 0), (424, 3, 9, 0, 0)),
        *((256, 1, 0, 0, 0), (312, 1, 1, 0, 0, 0), (440, 3, 0, 0, 0, 0)),
    ]
    assert under_filter(*refused, families=())[0] == [1] * len(refused)
    assert under_filter((437, -100, 0, 0, 0), families=())[0] == [38]
    allowed = [
        (90, 0, 0o1777),
        (257, -100, 0, 0, 0),
        (302, 0, 7, 0, 0),
        (141, 0, 0, 0),
        (203, 0, 8, 0),
        (133, 0, 0o010644),
    ]
    assert 1 not in under_filter(*allowed, families=())[0]
    assert 1 not in under_filter(*refused[:3], families=seccomp.NETWORK)[0]


@pytest.mark.skipif(not X86, reason="numbers of x86_64")
def test_s11_the_x32_numbers_do_not_get_around_the_filter() -> None:
    assert under_filter((0x40000000 | 41, 16, 2, 0), (0x40000000 | 272, 0x10000000))[0] == [38, 38]


def test_it_needs_no_more_than_ctypes_and_struct() -> None:
    _, modules = under_filter()
    assert not modules & {"re", "socket", "shutil", "hashlib", "platform", "typing", "subprocess"}
