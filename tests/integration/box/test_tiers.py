from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.sandbox.box import Tier
from core.sandbox.inside.landlock import READ
from core.sandbox.tiers import bwrap, selection, self_test
from core.sandbox.tiers.selection import find_tier, load_cached_report, open_box, try_tier
from tests.support.box_cases import ROOT
from tests.support.box_tiers import NOT_PROMISED, found, offered, recorded

EMULATED = """
import asyncio, json, sys, tempfile
from pathlib import Path
from core.sandbox.tiers.selection import find_tier
with tempfile.TemporaryDirectory(dir="/var/tmp") as state:
    report = asyncio.run(find_tier(Path(state)))
json.dump([report.tier, [[each.tier, each.reason, each.errno, each.cure] for each in report.reasons]], sys.stdout)
"""
FILTERED = "from core.sandbox.inside import seccomp; seccomp.install_filter(seccomp.build_filter())\n"


def on_a_machine_that(wrapper: list[str], prelude: str = "") -> tuple[str, dict[str, tuple[str, str, str]]]:
    """The tier that is found there, and reason, errno and cure of each that was tried."""
    argv = [*wrapper, sys.executable, "-c", prelude + EMULATED]
    env = {**os.environ, "PYTHONPATH": ":".join([str(ROOT), *filter(None, sys.path)])}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 0, done.stderr
    tier, reasons = json.loads(done.stdout)
    return tier, {name: (reason, errno, cure) for name, reason, errno, cure in reasons}


def test_s18_no_tier_is_lost_that_the_baseline_has():
    lost = {trial.tier: trial.reason for trial in found().reasons if trial.tier in recorded() and not trial.ok}
    assert lost == {}


def test_s18_every_tier_that_is_offered_held_all_six_attempts():
    assert offered()
    for trial in found().reasons:
        assert not trial.ok or tuple(item.name for item in trial.items) == self_test.ITEMS


def test_what_a_tier_is_known_not_to_do_names_tests_that_exist():
    text = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    test_names = {name for table in NOT_PROMISED.values() for name in table}
    assert {name for name in test_names if f"def {name}(" not in text} == set()


async def test_s18_what_was_found_is_kept_and_found_again_when_the_machine_changes(tmp_path, monkeypatch):
    box, first = await open_box(tmp_path)
    assert box is not None
    assert (box.tier, first.cached) == (first.tier, False)
    again, second = await open_box(tmp_path)
    assert again is not None
    assert (again.tier, second.cached, second.reasons) == (first.tier, True, first.reasons)
    monkeypatch.setattr(selection, "__version__", "another")
    _, third = await open_box(tmp_path)
    assert not third.cached


async def test_s18_a_tier_that_was_only_too_slow_is_tried_again_at_the_next_start(tmp_path, monkeypatch):
    async def forever(*_: object) -> None:
        await asyncio.Event().wait()

    with monkeypatch.context() as busy:
        busy.setattr(self_test, "SECONDS", -0.9)
        busy.setattr(self_test, "run_self_test", forever)
        report = await find_tier(tmp_path)
    assert [trial.too_slow for trial in report.reasons if "not done within" in trial.reason] != []
    assert report.tier is Tier.NONE
    assert load_cached_report(tmp_path) is None
    assert (await find_tier(tmp_path)).tier is not Tier.NONE
    assert load_cached_report(tmp_path) is not None


async def test_a_damaged_cache_is_no_answer(tmp_path):
    (tmp_path / "box.json").write_text('{"key": 1')
    _, report = await open_box(tmp_path)
    assert not report.cached
    assert report.tier in offered()


async def test_s12_a_tier_that_was_asked_for_is_not_replaced_by_another(tmp_path, monkeypatch):
    monkeypatch.setattr(bwrap, "CANDIDATES", ())
    monkeypatch.setattr(bwrap.find_bwrap, "__defaults__", ((),))
    box, report = await open_box(tmp_path, tier=Tier.BWRAP_COPY)
    assert (box, report.tier) == (None, Tier.NONE)
    assert report.reasons[0].cure == selection.NO_BWRAP


async def test_s18_a_box_that_lets_one_attempt_through_is_not_taken(tmp_path, monkeypatch):
    if Tier.LANDLOCK not in offered():
        pytest.skip("nothing to weaken")
    monkeypatch.setattr("core.sandbox.tiers.landlock_box._list_rules", lambda *_: [("/", READ)])
    monkeypatch.setattr("core.sandbox.tiers.landlock_box.choose_user", lambda _: None)  # else root is held by modes
    reason = await try_tier(Tier.LANDLOCK, tmp_path)
    assert not reason.ok
    assert "outside: a hidden file was read" in reason.reason


async def test_nothing_of_the_self_test_is_left(tmp_path):
    await find_tier(tmp_path, try_all=True)
    assert [path.name for path in tmp_path.iterdir()] == ["box.json"]
    assert (tmp_path / "box.json").stat().st_mode & 0o777 == 0o600


def test_s12_where_user_namespaces_are_off_landlock_is_left_and_the_switch_is_named():
    if Tier.NAMESPACES not in offered():
        pytest.skip("there are none to switch off")
    off = 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"'
    tier, outcomes = on_a_machine_that(["unshare", "--user", "--map-root-user", "sh", "-c", off, "sh"])
    has_another_user = os.geteuid() != 0  # here root has no other user to become
    assert tier == (Tier.LANDLOCK if Tier.LANDLOCK in offered() and has_another_user else Tier.NONE)
    for tier_name in ("T1", *(name for name in ("T2b", "T2c") if Tier(name) in offered())):
        assert outcomes[tier_name][1:] == ("ENOSPC", selection.NAMESPACES_OFF)


def test_s12_where_a_filter_forbids_namespaces_landlock_is_left_and_the_container_is_named():
    if Tier.NAMESPACES not in offered():
        pytest.skip("there are none to forbid")
    tier, outcomes = on_a_machine_that([], FILTERED)
    assert tier == (Tier.LANDLOCK if Tier.LANDLOCK in offered() else Tier.NONE)
    for tier_name in ("T1", *(name for name in ("T2b", "T2c") if Tier(name) in offered())):
        assert outcomes[tier_name][1:] == ("EPERM", selection.CONTAINER)


def test_s12_where_proc_is_masked_landlock_is_left_and_the_mask_is_named():
    if Tier.NAMESPACES not in offered() or os.geteuid() != 0:
        pytest.skip("takes root and mounts")
    mask = 'mount -t tmpfs tmpfs /proc/bus && exec "$@"'
    tier, outcomes = on_a_machine_that(["unshare", "--mount", "sh", "-c", mask, "sh"])
    assert tier == (Tier.LANDLOCK if Tier.LANDLOCK in offered() else Tier.NONE)
    for tier_name in ("T1", *(name for name in ("T2b", "T2c") if Tier(name) in offered())):
        assert outcomes[tier_name][1:] == ("EPERM", selection.PROC_MASKED)


def test_s13_bubblewrap_is_only_taken_from_where_the_system_has_it(tmp_path):
    planted = tmp_path / "bwrap"
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o777)
    assert bwrap.find_bwrap((str(planted),)) is None
    assert all(path.startswith("/") for path in bwrap.CANDIDATES)


def test_n20_of_two_bubblewraps_the_one_that_has_the_option_is_taken(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root's are taken")
    places = []
    for name, help_text in (("old", "--bind"), ("new", "--bind --overlay-src")):
        places.append(tmp_path / name)
        places[-1].write_text(f"#!/bin/sh\necho {help_text}\n")
        places[-1].chmod(0o755)
    candidates = [str(place) for place in places]
    assert bwrap.find_bwrap(candidates) == places[0]
    assert bwrap.find_bwrap(candidates, option="--overlay-src") == places[1]
    assert bwrap.find_bwrap(candidates, option="--other") == places[0]


@pytest.mark.parametrize(
    ("reason", "here", "expected"),
    [
        ("unshare: No space left on device [ENOSPC]", selection.MachineTraits(), selection.NAMESPACES_OFF),
        (
            "unshare: Operation not permitted [EPERM]",
            selection.MachineTraits(unprivileged_clone=False),
            selection.CLONE_OFF,
        ),
        (
            "bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
            selection.MachineTraits(),
            selection.PROC_MASKED,
        ),
        ("unshare: Operation not permitted [EPERM]", selection.MachineTraits(is_container=True), selection.CONTAINER),
        (
            "process limit: nothing but a pids control group",
            selection.MachineTraits(is_root=True),
            selection.NO_PIDS_GROUP,
        ),
        ("something else [EIO]", selection.MachineTraits(), ""),
    ],
)
def test_a_signature_has_its_cure(reason, here, expected):
    assert selection.suggest_remedy(reason, here) == expected


@pytest.mark.parametrize(
    "reason",
    [
        "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
        "bwrap: setting up uid map: Permission denied",
        "user ids: write: Operation not permitted [EPERM]",
    ],
)
def test_s12_under_apparmor_the_cure_is_a_profile_for_this_program_and_no_switch_for_all(reason):
    advice = selection.suggest_remedy(reason, selection.MachineTraits(apparmor_restricts=True))
    assert "userns," in advice
    assert os.path.realpath(sys.executable) in advice
    assert "sysctl" not in advice


def test_m13_only_tiers_that_hold_without_a_question_run_without_one():
    assert {tier for tier in Tier if not tier.can_run_unasked} == {Tier.LANDLOCK, Tier.NONE}
    assert {tier for tier in Tier if not tier.is_contained} == {Tier.NONE, Tier.IN_PLACE}
    assert {tier for tier in Tier if not tier.is_walled} == {Tier.NONE, Tier.IN_PLACE, Tier.CONTAINER}
