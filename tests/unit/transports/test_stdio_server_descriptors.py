from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys

import pytest

from core.transports import session_sockets
from core.transports.session_sockets import is_own_peer

READER = """
import os
from core.transports.stdio_server import _move_standard_input
file = _move_standard_input()
os.close(0)  # as a library does by mistake
opened = os.open(os.devnull, os.O_RDONLY)
assert opened == 0, opened
print(file.fileno() >= 10, file.read().decode(), os.get_inheritable(file.fileno()))
"""


def test_the_clients_lines_outlive_a_stray_close_of_descriptor_0():
    done = subprocess.run([sys.executable, "-c", READER], input="lines", capture_output=True, text=True, check=True)
    assert done.stdout == "True lines False\n"


class DarwinSocket:
    """A connection whose other end is a process of a user, as macOS reports it."""

    def __init__(self, user: int) -> None:
        self._user = user

    def getsockopt(self, level: int, option: int, size: int) -> bytes:
        assert (level, option, size) == (0, 1, 76)
        return struct.pack("2Ih2x16I", 0, self._user, 1, *range(16))


@pytest.mark.parametrize(("user", "is_own"), [(os.geteuid(), True), (os.geteuid() + 1, False)])
def test_on_a_mac_the_other_end_is_known_by_local_peercred(user, is_own, monkeypatch):
    monkeypatch.setattr(session_sockets.sys, "platform", "darwin")
    assert is_own_peer(DarwinSocket(user)) is is_own


def test_the_other_end_of_a_pair_is_our_own():
    one, other = socket.socketpair()
    with one, other:
        assert is_own_peer(one)
