"""A login goes only where nobody can read it on its way."""

from __future__ import annotations

import pytest

from core.errors import ToolFailed
from core.mcp.login_flow import check_addresses

SAFE = "https://issuer.example/token"


@pytest.mark.parametrize("address", ["http://127.0.0.1:3000/a", "http://localhost/a", "http://[::1]/a", SAFE])
def test_an_issuer_is_reached_by_https_or_on_this_machine(address):
    check_addresses(address, SAFE)
    check_addresses(SAFE, address)


@pytest.mark.parametrize("host", ["issuer.example", "10.0.0.1", "localhost.example", "127.0.0.1.example"])
def test_a_login_that_could_be_read_on_its_way_is_refused_whoever_named_its_host(host):
    with pytest.raises(ToolFailed, match="not reached over https"):
        check_addresses(SAFE, f"http://{host}/token")
    with pytest.raises(ToolFailed, match="not reached over https"):
        check_addresses(f"http://{host}/authorize", SAFE)
