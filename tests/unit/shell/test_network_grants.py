"""Which hosts a command reaches: none to begin with, and of all that is said about one the strictest holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.permissions.rules import PermissionChoice, parse_rule
from core.shell.network_grants import NetworkGrants

HOST, OTHER = "api.example.org", "example.com"


def grants(place: Path, **rules: str) -> NetworkGrants:
    """Grants under rules such as `deny="*.example.org"`."""
    choices: list[PermissionChoice] = ["allow", "ask", "deny"]
    permission_rules = tuple(parse_rule(f"WebFetch({rules[choice]})", choice) for choice in choices if choice in rules)
    return NetworkGrants(place, lambda: permission_rules)


def test_nothing_is_reached_that_nobody_granted(tmp_path):
    assert not grants(tmp_path).is_allowed(HOST)
    assert grants(tmp_path).list_hosts() == ()


@pytest.mark.parametrize("for_session", [True, False])
def test_a_grant_holds_for_its_host_alone_and_one_for_once_until_it_is_revoked(tmp_path, for_session):
    network_grants = grants(tmp_path)
    network_grants.grant([HOST], for_session=for_session)
    assert (network_grants.is_allowed(HOST), network_grants.is_allowed(OTHER)) == (True, False)
    network_grants.revoke_once()
    assert network_grants.is_allowed(HOST) is for_session


@pytest.mark.parametrize("granted", ["by a rule", "for the session", "for once"])
@pytest.mark.parametrize(("stricter", "reaches"), [("ask", {"for once"}), ("deny", set())])
def test_a_rule_that_asks_or_denies_is_stronger_than_any_standing_grant(tmp_path, granted, stricter, reaches):
    allowed = {"allow": "*"} if granted == "by a rule" else {}
    network_grants = grants(tmp_path, **{stricter: "*.example.org"}, **allowed)
    if not allowed:
        network_grants.grant([HOST, OTHER], for_session=granted == "for the session")
    assert network_grants.is_allowed(OTHER)
    assert network_grants.is_allowed(HOST) is (granted in reaches)
    assert network_grants.can_be_asked(HOST) is (stricter == "ask")
