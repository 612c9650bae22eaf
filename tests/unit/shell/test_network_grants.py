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
    found = tuple(parse_rule(f"WebFetch({rules[each]})", each) for each in choices if each in rules)
    return NetworkGrants(place, lambda: found)


def test_nothing_is_reached_that_nobody_granted(tmp_path):
    assert not grants(tmp_path).is_allowed(HOST)
    assert grants(tmp_path).list_hosts() == ()


@pytest.mark.parametrize("for_session", [True, False])
def test_a_grant_holds_for_its_host_alone_and_one_for_once_until_it_is_revoked(tmp_path, for_session):
    found = grants(tmp_path)
    found.grant([HOST], for_session=for_session)
    assert (found.is_allowed(HOST), found.is_allowed(OTHER)) == (True, False)
    found.revoke_once()
    assert found.is_allowed(HOST) is for_session


@pytest.mark.parametrize("granted", ["by a rule", "for the session", "for once"])
@pytest.mark.parametrize(("stricter", "reaches"), [("ask", {"for once"}), ("deny", set())])
def test_a_rule_that_asks_or_denies_is_stronger_than_any_standing_grant(tmp_path, granted, stricter, reaches):
    allowed = {"allow": "*"} if granted == "by a rule" else {}
    found = grants(tmp_path, **{stricter: "*.example.org"}, **allowed)
    if not allowed:
        found.grant([HOST, OTHER], for_session=granted == "for the session")
    assert found.is_allowed(OTHER)
    assert found.is_allowed(HOST) is (granted in reaches)
    assert found.can_be_asked(HOST) is (stricter == "ask")
