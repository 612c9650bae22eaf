"""Policy: the floor, and rules that can tighten it."""

from __future__ import annotations

import pytest

from core.errors import ConfigError
from core.modes import Access
from core.permissions.policy import CommandTerms, ExternalTerms, decide_call, decide_external
from core.permissions.rules import parse_rule


@pytest.mark.parametrize("access", [Access.READ, Access.ASK, Access.TODO, Access.PLAN, Access.PROPOSE])
def test_what_stays_within_the_shadow_runs(access):
    assert decide_call(access, "x", CommandTerms(is_contained=False)).choice == "allow"


@pytest.mark.parametrize("contained", [True, False])
def test_s12_every_command_is_asked_about(contained):
    assert decide_call(Access.EXEC, "true", CommandTerms(is_contained=contained)).choice == "ask"


def test_a_server_is_refused_here_whatever_a_rule_says_as_its_calls_are_decided_by_their_own_function():
    rules = [parse_rule("WebFetch(*)", "allow"), parse_rule("Mcp(*)", "allow")]
    assert decide_call(Access.EXTERNAL, "x", CommandTerms(is_contained=True), rules=rules).choice == "deny"


@pytest.mark.parametrize(
    ("terms", "choice"),
    [
        (ExternalTerms(keeps_effects=True, host="far.example"), "ask"),
        (ExternalTerms(keeps_effects=True, host="far.example", is_reading=True), "ask"),
        (ExternalTerms(keeps_effects=False, host="far.example"), "deny"),
        (ExternalTerms(keeps_effects=False, host="far.example", is_reading=True), "ask"),
    ],
)
def test_a_call_that_leaves_the_machine_is_asked_about_in_every_mode_that_grants_it(terms, choice):
    assert decide_external("far:say", terms, rules=[]).choice == choice


def test_i8_a_rule_alone_lets_nothing_out_to_a_remote_server_once_there_is_reason_for_caution():
    allow, deny = parse_rule("Mcp(far:*)", "allow"), parse_rule("Mcp(far:*)", "deny")
    calm = ExternalTerms(keeps_effects=True, host="far.example")
    careful = ExternalTerms(keeps_effects=True, host="far.example", caution="text of strangers is here")
    assert decide_external("far:say", calm, rules=[allow]).choice == "allow"
    assert decide_external("far:say", careful, rules=[allow]).choice == "ask"
    assert decide_external("far:say", careful, rules=[deny]).choice == "deny"


def test_the_strictest_matching_rule_wins():
    allow, ask, deny = (parse_rule("Shell(git *)", choice) for choice in ("allow", "ask", "deny"))
    assert decide_call(Access.EXEC, "git status", CommandTerms(is_contained=True), rules=[allow]).choice == "allow"
    assert decide_call(Access.EXEC, "git status", CommandTerms(is_contained=True), rules=[allow, ask]).choice == "ask"
    assert (
        decide_call(Access.EXEC, "git status", CommandTerms(is_contained=True), rules=[allow, deny, ask]).choice
        == "deny"
    )
    assert decide_call(Access.EXEC, "make", CommandTerms(is_contained=True), rules=[allow]).choice == "ask"


def test_s12_no_rule_lets_an_uncontained_command_run_unasked():
    rule = parse_rule("Shell(*)", "allow")
    assert decide_call(Access.EXEC, "ls", CommandTerms(is_contained=False), rules=[rule]).choice == "ask"


@pytest.mark.parametrize("text", ["", "git *", "Shell()", "Shel(git *)", "Shell(git", "Write"])
def test_what_is_no_rule_is_said(text):
    with pytest.raises(ConfigError, match="not a permission rule"):
        parse_rule(text, "allow")


def test_a_pattern_takes_everything_but_the_star_literally():
    rule = parse_rule("Write(src/*.py)", "deny")
    assert rule.matches("src/a.py")
    assert not rule.matches("src/axpy")
    assert decide_call(Access.READ, "src/a.py", CommandTerms(is_contained=True), rules=[rule]).choice == "allow"
