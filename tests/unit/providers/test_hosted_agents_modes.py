"""The mode of a hosted agent is chosen of those that it offers, by what they are for."""

from __future__ import annotations

from typing import Any

import pytest

from core.providers.hosted_agents import ModeOffer, read_mode_offer

CODEX = ("read-only", "workspace-write", "agent", "agent-full-access")
CODEX_BEFORE = ("read-only", "auto", "full-access")
CLAUDE = ("default", "acceptEdits", "plan", "auto", "bypassPermissions")
GEMINI = ("default", "autoEdit", "yolo", "plan")


def offer(*modes: str, current: str = "") -> ModeOffer:
    return ModeOffer(modes=tuple((mode, mode.title()) for mode in modes), current=current or modes[0])


@pytest.mark.parametrize(
    ("modes", "working", "reading"),
    [
        (CODEX, "agent-full-access", "agent-full-access"),
        (CODEX_BEFORE, "full-access", "full-access"),
        (CLAUDE, "default", "plan"),
        (GEMINI, "default", "plan"),
        (("build", "plan"), "build", "plan"),
        (("agent", "plan", "ask"), "agent", "plan"),
        (("yolo", "manual"), "manual", "manual"),
        (("Read Only", "Default"), "Default", "Read Only"),
        (
            ("https://a.example/#agent", "https://a.example/#plan"),
            "https://a.example/#agent",
            "https://a.example/#plan",
        ),
    ],
)
def test_of_what_is_offered_the_mode_is_taken_in_which_the_box_or_the_rules_decide(modes, working, reading):
    assert offer(*modes).choose(only_reads=False) == working
    assert offer(*modes).choose(only_reads=True) == reading
    assert offer(*reversed(modes)).choose(only_reads=False) == working


@pytest.mark.parametrize("only_reads", [False, True])
@pytest.mark.parametrize(
    "modes", [("auto", "bypassPermissions"), ("yolo",), ("workspace-write", "agent"), ("read-only", "workspace-write")]
)
def test_an_agent_is_refused_whose_modes_all_decide_by_themselves_or_build_a_sandbox(modes, only_reads):
    assert offer(*modes).choose(only_reads=only_reads) is None


def test_an_agent_with_a_sandbox_of_its_own_has_no_other_mode_than_the_one_without():
    assert offer("read-only", "agent").choose(only_reads=False, confines_itself=True) is None
    assert offer("read-only", "agent").choose(only_reads=True, confines_itself=True) is None
    assert offer("read-only", "agent", "full-access").choose(only_reads=True, confines_itself=True) == "full-access"


def test_an_id_that_is_new_is_known_by_its_name():
    modes = ModeOffer(modes=(("m1", "Full access"), ("m2", "Read-only")), current="m2")
    assert modes.choose(only_reads=False) == "m1"


def test_the_users_own_mode_comes_first_and_has_to_be_offered():
    assert offer("auto", "mine").choose(only_reads=False, configured_mode="mine") == "mine"
    assert offer("auto", "plan").choose(only_reads=True, configured_mode="auto") == "plan"
    assert offer("auto", "mine").choose(only_reads=False, configured_mode="other") is None


def test_modes_are_read_from_either_form_and_from_groups():
    option: dict[str, Any] = {"id": "how", "category": "mode", "currentValue": "b"}
    groups = [{"group": "g", "name": "G", "options": [{"value": "a", "name": "A"}]}, {"value": "b", "name": "B"}]
    listed = {"configOptions": [{"id": "m", "category": "model", "options": groups}, {**option, "options": groups}]}
    mode_offer = read_mode_offer(listed)
    assert mode_offer == ModeOffer(modes=(("a", "A"), ("b", "B")), current="b", option="how")
    modes = {"currentModeId": "x", "availableModes": [{"id": "x", "name": "X"}, {"name": "no id"}, 3]}
    mode_offer = read_mode_offer({"modes": modes, **listed})
    assert mode_offer == ModeOffer(modes=(("x", "X"),), current="x")


@pytest.mark.parametrize(
    "opened",
    [
        {},
        {"modes": None},
        {"modes": {"availableModes": []}},
        {"modes": 3, "configOptions": "no"},
        {"configOptions": [1]},
    ],
)
def test_an_agent_without_modes_offers_none(opened):
    assert read_mode_offer(opened) is None
