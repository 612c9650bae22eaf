"""Which tiers this machine offers, against what was recorded; and what a tier is known not to do, test by test."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from functools import cache
from pathlib import Path

from core.sandbox.box import Tier
from core.sandbox.tiers.selection import TierReport, find_tier

BASELINE = Path(__file__).parents[1] / "box_baseline.json"


@cache
def found() -> TierReport:
    """Every tier, really tried, as the user that runs the tests."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as state:
        return asyncio.run(find_tier(Path(state), try_all=True))


def offered() -> tuple[Tier, ...]:
    return tuple(trial.tier for trial in found().reasons if trial.ok)


def recorded() -> frozenset[Tier]:
    """What the run must offer: AGENT_TUI_BOX_BASELINE=none is for a machine that is known to offer less."""
    if os.environ.get("AGENT_TUI_BOX_BASELINE") == "none":
        return frozenset()
    tiers = frozenset(map(Tier, json.loads(BASELINE.read_text(encoding="utf-8"))["tiers"]))
    return tiers - {Tier.LANDLOCK} if os.geteuid() == 0 else tiers  # root is never offered it


_NO_PROXY = "grants of hosts need T1"
_OWN_PROC = "pid 1 is bubblewrap's; its environment, which is the command's own, can be read"
_ONE_USER = "the ids of other users are not mapped"
_LINKS = "in a copy every name has a file of its own"
_NO_MASKS = "a copy has no masked files, so nothing keeps their directory"
_COPY = "a copy is compared, not recorded: the same effect is written without the mark"
_FIRST_ENDS = "bubblewrap ends everything when the command itself has ended"
_PLACE = "the command sees a copy at another path, and has its home and /tmp at another one"
_METADATA = "Landlock does not cover chmod and utimes"
_SAME_PROC = "/proc is the machine's: processes and their arguments, keys' and segments' names can be listed"
_NO_TERMINAL = "no terminal and no /dev/shm: those of the machine are other programs' too"
_OTHER_WORDS = "what is refused says `Permission denied`, what is hidden has a name; see test_landlocked"
_NO_LOOPBACK = "no network at all, not even to itself; see test_landlocked"
_NO_SOCKETS = "no unix sockets but connected pairs: those of the machine could be reached by their path"
_BOUND = "the machine's directories are bound: pipes in them can be written to"
_NO_MOUNTS = "bubblewrap lays no overlay over a workspace with mounts in it; that is said"
_UNBOUNDED = "what is thrown away lies on the disk"

_BWRAP = {
    "test_a_child_gets_the_grace_too_and_what_ignores_it_is_killed": _FIRST_ENDS,
    "test_root_can_work_on_a_project_of_another_user_and_keeps_its_owner": _ONE_USER,
    "test_the_proxy_is_the_only_way_out_when_there_is_one": _NO_PROXY,
    "test_a_service_of_the_machine_is_at_its_port_and_its_socket_for_every_user": _NO_PROXY,
    "test_s7_processes_of_the_host_can_be_neither_seen_nor_touched": _OWN_PROC,
}
NOT_PROMISED: dict[Tier, dict[str, str]] = {
    Tier.NAMESPACES: {},
    Tier.BWRAP_OVERLAY: _BWRAP
    | {
        "test_n8_unix_sockets_work_among_the_programs_of_a_command": _NO_SOCKETS,
        "test_n8_a_pipe_of_the_machine_leads_nowhere": _BOUND,
        "test_p19_what_is_mounted_inside_the_workspace_is_there_and_read_only": _NO_MOUNTS,
    },
    Tier.BWRAP_MOUNTED: _BWRAP,
    Tier.BWRAP_COPY: _BWRAP
    | {
        "test_a_directory_that_was_replaced_is_opaque_in_the_layer": _COPY,
        "test_a_renamed_tree_keeps_modes_times_links_and_attributes": _LINKS,
        "test_a_directory_with_a_file_that_the_command_may_not_read_stays": _NO_MASKS,
        "test_n8_unix_sockets_work_among_the_programs_of_a_command": _NO_SOCKETS,
        "test_n8_a_pipe_of_the_machine_leads_nowhere": _BOUND,
    },
    Tier.LANDLOCK: {
        "test_a_renamed_tree_keeps_modes_times_links_and_attributes": _LINKS,
        "test_a_directory_with_a_file_that_the_command_may_not_read_stays": _NO_MASKS,
        "test_another_file_system_is_still_another_one": _PLACE,
        "test_a_directory_that_was_replaced_is_opaque_in_the_layer": _COPY,
        "test_root_can_work_on_a_project_of_another_user_and_keeps_its_owner": _ONE_USER,
        "test_the_proxy_is_the_only_way_out_when_there_is_one": _NO_PROXY,
        "test_a_service_of_the_machine_is_at_its_port_and_its_socket_for_every_user": _NO_PROXY,
        "test_s1_nothing_outside_the_workspace_can_be_written": _METADATA,
        "test_r3_a_throw_away_layer_and_all_that_is_fresh_are_bounded_by_one_number": _UNBOUNDED,
        "test_names_that_overlay_options_would_trip_over_are_plain_names_here": _PLACE,
        "test_a_workspace_in_tmp_is_seen_while_the_rest_of_tmp_is_not": _PLACE,
        "test_a_virtual_environment_whose_interpreter_lies_in_the_home_runs": _PLACE,
        "test_an_active_virtual_environment_elsewhere_is_readable": _PLACE,
        "test_hidden_paths_do_not_exist_and_readable_ones_cannot_be_written": _OTHER_WORDS,
        "test_a_terminal_of_its_own_works_inside": _NO_TERMINAL,
        "test_the_devices_of_every_day_work": _NO_TERMINAL,
        "test_p19_what_is_mounted_inside_the_workspace_is_there_and_read_only": _OTHER_WORDS,
        "test_s5_nothing_leaves_for_the_network_and_loopback_works_inside": _NO_LOOPBACK,
        "test_s6_no_socket_of_the_host_can_be_connected_to": _PLACE,
        "test_s7_processes_of_the_host_can_be_neither_seen_nor_touched": _SAME_PROC,
        "test_s11_the_walls_cannot_be_taken_down_from_inside": _PLACE,
        "test_s15_secrets_of_the_system_are_masked_and_its_settings_read_only": _SAME_PROC,
        "test_k1_no_process_that_a_command_can_see_has_a_variable_that_was_not_given": _PLACE,
        "test_k3_credentials_of_the_home_are_not_there_and_toolchains_are": _PLACE,
        "test_k3_other_peoples_homes_do_not_exist": _OTHER_WORDS,
        "test_k6_no_key_of_the_kernel_no_shared_memory_and_no_core_dump_gets_out": _SAME_PROC,
        "test_a_home_that_is_reached_through_a_link_works": _PLACE,
        "test_n8_unix_sockets_work_among_the_programs_of_a_command": _NO_SOCKETS,
    },
}
