"""The catalogue of safety cases, and which test covers each: paths, the box, modes, injection, terminal and so on.

`safety_catalogue.md` holds one line a case, as the catalogue has it; a `!` after the id says that it blocks a release.
A test that covers a case has its id in its name (`test_s8_…`); for the section N it is named here, since the numbers of
issues stand in names in the same way. What a box itself has to hold is covered on every tier, for every user: by a test
that takes the fixture `boxed` (all tiers) or `locked` (Landlock).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("safety_catalogue.md")
_LINE = re.compile(r"- ([A-Z]+\d+)(!?) (.+)")


@dataclass(frozen=True)
class Case:
    """`blocking`: it must hold before a release."""

    text: str
    blocking: bool


def read_catalogue(text: str) -> dict[str, Case]:
    """The cases by their ids, in lower case and in order."""
    matches = (_LINE.fullmatch(line) for line in text.splitlines())
    return {match[1].lower(): Case(text=match[3], blocking=match[2] == "!") for match in matches if match}


CATALOGUE = read_catalogue(FILE.read_text(encoding="utf-8"))
BLOCKING = {name: case.text for name, case in CATALOGUE.items() if case.blocking}
EVERY_TIER = frozenset(
    {"p17", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s10", "s11", "m2", "k1", "k3", "r1", "r2"}
)

# What listens: the server by HTTP once it is started, and the collector of probe logs while a run with probes lasts.
_HTTP = "tests/integration/test_http_safety.py"
_SERVE = "tests/integration/test_serve.py"
_COLLECTOR = "tests/unit/shell/test_log_collector.py"
NETWORK: dict[str, tuple[str, ...]] = {
    "n1": (
        f"{_COLLECTOR}::test_n1_it_listens_on_loopback_alone_on_a_port_of_its_own",
        f"{_HTTP}::test_n1_beyond_this_machine_there_is_no_server_without_tls",
        f"{_SERVE}::test_n1_the_program_serves_says_where_once_and_ends_cleanly",
    ),
    "n2": (
        f"{_COLLECTOR}::test_n2_n3_what_does_not_know_the_token_or_says_too_much_is_refused_and_leaves_nothing",
        f"{_HTTP}::test_n2_every_route_needs_its_grant_whatever_the_token",
        f"{_HTTP}::test_n2_the_tokens_are_for_their_owner_alone_and_weak_or_open_ones_are_refused",
        f"{_HTTP}::test_n2_a_websocket_is_let_in_by_the_same_rules",
    ),
    "n3": (
        f"{_COLLECTOR}::test_n2_n3_what_does_not_know_the_token_or_says_too_much_is_refused_and_leaves_nothing",
        f"{_HTTP}::test_n3_hosts_and_origins_that_are_not_listed_are_refused_on_every_route",
        f"{_HTTP}::test_n3_only_a_listed_page_may_read_answers",
    ),
    "n4": (
        f"{_COLLECTOR}::test_n4_a_form_that_a_page_sends_blindly_does_not_know_the_way_and_leaves_nothing",
        f"{_HTTP}::test_n4_a_body_that_a_form_can_send_is_refused",
    ),
    "n5": (f"{_HTTP}::test_n5_a_token_in_the_address_counts_for_nothing",),
    "n6": (f"{_HTTP}::test_n6_every_command_that_writes_grants_or_spends_needs_the_right_to_approve",),
    "n7": (f"{_HTTP}::test_n7_a_reader_that_takes_nothing_is_dropped_and_the_turn_goes_on",),
    "n11": (f"{_SERVE}::test_n11_no_command_of_the_agent_reaches_the_server_or_its_tokens",),
    "n8": (
        f"{_HTTP}::test_n8_a_body_of_a_hundred_megabytes_is_refused_and_not_held",
        f"{_HTTP}::test_n8_a_client_of_a_byte_a_second_is_ended_and_holds_up_nobody",
        f"{_HTTP}::test_n8_headers_without_end_and_what_is_no_http_are_refused",
        f"{_COLLECTOR}::test_n8_too_many_requests_and_too_many_bytes_are_refused",
        f"{_COLLECTOR}::test_n8_garbage_and_those_who_say_nothing_hold_up_nobody_for_long",
    ),
    "n9": ("tests/unit/engine/session/test_recorder.py::test_two_subscribers_see_the_same_order",),
    "n10": (
        "tests/unit/providers/connection/test_failures.py::test_names_and_certificates_have_hints_of_their_own",
        "tests/contract/test_absent.py::test_no_setting_and_no_code_turns_the_check_of_certificates_off",
    ),
}
# What can't be covered because the thing does not exist: why, and the test that it does not.
ABSENT: dict[str, tuple[str, str]] = {
    "k8": ("sessions can't be exported", "tests/contract/test_absent.py::test_sessions_are_not_exported"),
}
# No blocker is among these.
UNTESTED: dict[str, str] = {
    "t3": "colours of commands are not kept at all; what is shown goes through the same door as other text (T1)",
    "t8": "measured by the benchmarks; not a test of the suite",
    "t10": "a terminal without colour or UTF-8 is tried by hand",
    "t11": "replies of a terminal that come late are left to Textual",
    "d9": "a suspended laptop looks like a stalled stream, which is tested (V6), but is not told apart from it",
    "r6": "measured by the benchmarks; not a test of the suite",
}
