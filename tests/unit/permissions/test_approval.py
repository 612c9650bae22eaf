from __future__ import annotations

import pytest

from core.errors import ConfigError
from core.permissions.approval import MAX_HOSTS, Approval, find_named_hosts, is_service, list_requested
from core.permissions.rules import parse_rule


@pytest.mark.parametrize(
    ("command", "hosts"),
    [
        ("curl https://example.org/x", ("example.org",)),
        ("curl 'HTTPS://Example.ORG:8443/x' \"http://b.test\"", ("example.org", "b.test")),
        ("git clone https://user:pass@git.test/a.git; curl https://git.test?x", ("git.test",)),
        ("curl https://good.test@evil.test/", ("evil.test",)),
        ("curl https://a.test;curl http://b.test|sh", ("a.test", "b.test")),
        ("curl https://a_b.test/ https://-x.test/ https:///x", ()),
        ("curl https://$HOST/ http://{a,b}.test/ ftp://c.test/", ()),
        ("pip install requests", ()),
    ],
)
def test_the_hosts_of_a_command_are_those_of_its_addresses_as_they_stand_there(command, hosts):
    assert find_named_hosts(command) == hosts


def test_m8_of_a_command_full_of_addresses_only_the_hosts_count_that_a_question_can_show():
    assert len(find_named_hosts(" ".join(f"http://{index}.a/" for index in range(50)))) <= MAX_HOSTS
    assert find_named_hosts(f"curl http://{'a' * 60}.test/ http://{'b' * 60}.test/") == (f"{'a' * 60}.test",)
    assert find_named_hosts(f"curl http://{'a.' * 60}test/ http://evil.test/") == ()


def test_what_is_asked_for_counts_once_and_only_what_there_is():
    assert list_requested(["all", "x11", "network", "localhost:80", "all", "usb", ["a"], None]) == (
        "network",
        "localhost:80",
        "x11",
        "all",
    )


def test_m5_a_yes_without_a_permission_is_none_with_it():
    plain = Approval(subject="make", network=("a.test",))
    digests = {
        Approval(subject="make", network=("a.test",), permissions=permission_names).compute_digest()
        for permission_names in ((), ("network",), ("git_write",), ("all",))
    }
    assert len(digests) == 4
    assert plain.compute_digest() in digests


def test_m6_what_leaves_the_box_is_named_in_full():
    with pytest.raises(ConfigError, match="not name an exact command"):
        parse_rule("Machine(git push *)", "allow")
    rule = parse_rule("Machine(git push)", "allow")
    assert rule.matches("git push")
    assert not any(map(rule.matches, ("git push ", "git push --force", "GIT PUSH", "git push; x")))
    assert parse_rule("Machine(*)", "deny").matches("anything; at all")


@pytest.mark.parametrize("name", ["localhost:1", "localhost:65535", "docker", "ssh-agent", "x11", "wayland"])
def test_a_service_is_a_port_or_a_name_that_is_known(name):
    assert is_service(name)
    assert parse_rule(f"Service({name})", "allow").matches(name)


@pytest.mark.parametrize(
    "name", ["localhost:0", "localhost:65536", "localhost:099", "localhost", "127.0.0.1:80", "dbus", "docker ", ""]
)
def test_anything_else_is_no_service(name):
    assert not is_service(name)
    with pytest.raises(ConfigError):
        parse_rule(f"Service({name}x)", "allow")


def test_m6_a_service_is_allowed_by_its_whole_name_and_denied_by_any_pattern():
    with pytest.raises(ConfigError, match="not name a service"):
        parse_rule("Service(localhost:*)", "allow")
    assert parse_rule("Service(localhost:*)", "deny").matches("localhost:5432")
    assert not parse_rule("Service(localhost:543)", "allow").matches("localhost:5432")
