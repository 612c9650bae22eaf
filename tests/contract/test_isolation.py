"""The walls around the tests hold."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest


def test_a_test_lives_in_an_empty_home(isolated):
    assert Path.home() == isolated
    assert [path for path in isolated.rglob("*") if path.is_file()] == []
    assert Path(os.environ["XDG_STATE_HOME"]).is_relative_to(isolated)


def test_no_key_of_the_developer_reaches_a_test():
    assert [
        name for name in os.environ if name.endswith("_API_KEY") or name.startswith(("OPENAI_", "ANTHROPIC_"))
    ] == []


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("example.com", 443), ("2001:db8::1", 80, 0, 0)])
def test_a_connection_to_the_outside_is_refused(address):
    family = socket.AF_INET6 if len(address) == 4 else socket.AF_INET
    with socket.socket(family) as outside, pytest.raises(PermissionError, match="only loopback"):
        outside.connect(address)


def test_a_name_lookup_is_refused():
    with pytest.raises(PermissionError, match="only loopback"):
        socket.getaddrinfo("example.com", 443)


def test_loopback_is_open():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert client.getpeername() == server.getsockname()
