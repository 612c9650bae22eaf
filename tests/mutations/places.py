"""The places: what is broken there, and the test that catches it. A contract test keeps them true to the source."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """`old` stands once in `file` and becomes `new`; `test`, as pytest names it, fails then. `had_none`: no test failed
    when the place was first broken."""

    name: str
    file: str
    old: str
    new: str
    test: str
    had_none: bool = False


def apply_mutation(place: Place, source: str) -> str:
    """Return the source with the place broken. Raises ValueError if what is to be broken does not stand in it once."""
    if (count := source.count(place.old)) != 1:
        raise ValueError(f"{place.file} has {count} times, and not once, what is to be broken: {place.old!r}")
    return source.replace(place.old, place.new)


def format_row(place: Place) -> str:
    """Return the row of `docs/testing.md` for a place."""
    return f"| {place.name}{' *' * place.had_none} | `{place.file}` | `{place.test.removeprefix('tests/')}` |"


PLACES = (
    # limits of what is sent and spent
    Place(
        "compaction cuts between a call and its result",
        "core/agent/context/compaction.py",
        "if not isinstance(messages[index], ToolMessage):\n            cut = index",
        "cut = index",
        "tests/unit/agent/context/test_compaction.py::test_the_history_is_never_cut_between_a_call_and_its_result",
        had_none=True,
    ),
    Place(
        "what was counted for another prefix counts on",
        "core/agent/context/token_meter.py",
        " and self._counted[1] == prefix",
        "",
        "tests/unit/agent/context/test_token_meter.py::test_a_count_says_nothing_about_a_request_with_another_prefix",
        had_none=True,
    ),
    Place(
        "one step more than the limit of steps",
        "core/agent/turn/budget.py",
        "self.steps >= limits.max_steps",
        "self.steps > limits.max_steps",
        "tests/unit/agent/turn/test_budget.py::test_a_limit_that_is_changed_while_the_turn_runs_holds_at_once",
    ),
    Place(
        "what a subagent uses is not the parent's",
        "core/agent/turn/budget.py",
        "self._parent.add(usage, model)",
        "pass",
        "tests/unit/agent/turn/test_budget_subagents.py::test_the_limits_of_a_turn_hold_for_all_that_works_for_it_together",
    ),
    Place(
        "a window more than 80 % full looks like any other",
        "tui/widgets/status_bar.py",
        "if share > 0.8 else",
        "if share > 0.95 else",
        "tests/tui/test_status_bar.py::test_a_window_of_which_more_than_80_percent_are_used_is_warned_of",
        had_none=True,
    ),
    # the gate, rules and grants
    Place(
        "the mode is not looked at again after a yes",
        "core/agent/gate/gate.py",
        "self._check_granted(call)  # the mode may have changed while the user thought about it",
        "pass",
        "tests/unit/agent/gate/test_gate.py::test_m12_a_yes_to_what_a_subagents_parent_may_no_longer_do_runs_nothing",
        had_none=True,
    ),
    Place(
        "a link is judged by its own name alone",
        "core/agent/gate/permissions.py",
        "dict.fromkeys((rel, self.resolve_links(rel)))",
        "(rel,)",
        "tests/integration/test_permissions.py::test_p20_a_secret_is_read_only_after_a_yes_and_never_found_by_a_search",
    ),
    Place(
        "a rule that asks is stronger than one that denies",
        "core/permissions/rules.py",
        '{"allow": 0, "ask": 1, "deny": 2}',
        '{"allow": 0, "ask": 2, "deny": 1}',
        "tests/unit/permissions/test_policy.py::test_the_strictest_matching_rule_wins",
    ),
    Place(
        "a rule that denies sees another spelling as another file",
        "core/permissions/rules.py",
        "compile_path_pattern(_fold_path(self.pattern)).fullmatch(_fold_path(subject))",
        "compile_path_pattern(self.pattern).fullmatch(subject)",
        "tests/unit/permissions/test_rules.py::test_a_rule_that_refuses_sees_names_as_a_lenient_file_system_does",
    ),
    Place(
        "a rule allows a command that nothing contains",
        "core/permissions/policy.py",
        'spoken is None or (spoken.choice == "allow" and not terms.is_contained)',
        "spoken is None",
        "tests/unit/permissions/test_policy.py::test_s12_no_rule_lets_an_uncontained_command_run_unasked",
    ),
    Place(
        "a saved yes holds in another directory of that name",
        "core/permissions/saved_rules.py",
        'each.choice != "allow" or each.born == here',
        'each.choice != "allow" or bool(here)',
        "tests/unit/permissions/test_saved_rules.py::test_n3_what_was_allowed_in_a_directory_does_not_hold_in_one_that_took_its_place",
    ),
    Place(
        "one approval runs two commands",
        "core/agent/gate/capabilities.py",
        "approved, self._approved = self._approved, None",
        "approved = self._approved",
        "tests/integration/test_permissions.py::test_m4_m5_the_launcher_runs_only_what_was_approved_as_it_was_approved",
    ),
    Place(
        "plan mode may edit",
        "core/modes.py",
        "ModeRules(grants=_EVERY_MODE | {Access.TODO, Access.PLAN}, keeps",
        "ModeRules(grants=_EVERY_MODE | {Access.TODO, Access.PLAN, Access.PROPOSE}, keeps",
        "tests/contract/test_access_matrix.py::test_m1_a_refusal_says_what_to_do_instead",
    ),
    Place(
        "ask and plan mode run commands that nothing contains",
        "core/modes.py",
        "access in mode.rules.grants and (is_contained or not needs_box)",
        "access in mode.rules.grants",
        "tests/contract/test_access_matrix.py::test_m1_a_tool_acts_only_where_its_mode_grants_it",
    ),
    Place(
        "a subagent may what its parent may not",
        "core/agent/turn/budget.py",
        "access in self.requested and self.parent_grants(access)",
        "access in self.requested",
        "tests/unit/agent/turn/test_budget_subagents.py::test_m12_it_may_what_was_asked_for_and_its_parent_may_and_nothing_else",
    ),
    # paths
    Place(
        "a path that ends in .. leaves the tree where the kernel does not help",
        "core/filesystem/open_beneath.py",
        'if b".." in parents or last == b"..":',
        'if b".." in parents:',
        "tests/unit/filesystem/test_open_beneath.py::test_p1_a_path_out_of_the_tree_is_not_opened_wherever_the_dots_stand",
        had_none=True,
    ),
    Place(
        "a link into a neighbour of the project counts as inside",
        "core/filesystem/open_beneath.py",
        'prefix = root.rstrip(b"/") + b"/"',
        'prefix = root.rstrip(b"/")',
        "tests/unit/filesystem/test_open_beneath.py::test_p2_a_link_into_a_directory_whose_name_only_begins_like_the_project_s_leads_out_of_it",
        had_none=True,
    ),
    Place(
        "a link shows what is kept from the agent",
        "core/shadow/shadow.py",
        "if real != rel:\n            self.ignore.refuse_withheld(real)",
        "",
        "tests/unit/shadow/test_shadow.py::test_p20_what_the_user_withholds_is_neither_read_nor_written",
    ),
    Place(
        "protected files are missing from the notice of what is left",
        "core/engine/commands/review.py",
        "if named := [change for change in still if change.protected or change.conflict]:",
        "if named := [change for change in still if change.conflict]:",
        "tests/integration/test_engine_commands.py::test_accepting_everything_leaves_what_is_protected_or_in_conflict_and_says_so",
    ),
    # what is on the disk
    Place(
        "a file gets its name before its bytes are on the disk",
        "core/filesystem/atomic_write.py",
        "            if durable:\n                os.fsync(descriptor)",
        "",
        "tests/unit/filesystem/test_atomic_write.py::test_d3_the_file_is_synced_before_the_rename_and_its_directory_after_it",
    ),
    Place(
        "a new name is lost by a power cut",
        "core/filesystem/atomic_write.py",
        "    if durable:\n        sync_directory(directory)",
        "",
        "tests/unit/filesystem/test_atomic_write.py::test_d3_the_file_is_synced_before_the_rename_and_its_directory_after_it",
    ),
    Place(
        "a transaction that was done is taken back after a crash",
        "core/shadow/promotion/journal.py",
        "Transaction(found[name].intent, is_committed=True)",
        "Transaction(found[name].intent, is_committed=False)",
        "tests/integration/test_promotion_faults.py::test_d6_what_was_committed_stays_when_the_user_edits_one_of_the_files_before_the_next_start",
        had_none=True,
    ),
    Place(
        "recovery overwrites what a program wrote into the old file",
        "core/shadow/promotion/promotion.py",
        "return all(self._swaps.is_untouched(write) for write in done)",
        "return True",
        "tests/integration/test_promotion_faults.py::test_n15_a_crash_between_the_exchange_and_the_look_gives_the_user_s_bytes_back",
    ),
    Place(
        "an edit made in the very moment of the exchange is lost",
        "core/shadow/promotion/file_swap.py",
        "if not _has_state(temporary, write.path, write.before):\n                    self._exchange_other_back",
        "if False:\n                    self._exchange_other_back",
        "tests/unit/shadow/promotion/test_file_swap.py::test_n15_what_is_written_into_the_file_in_that_moment_is_put_back_at_once",
        had_none=True,
    ),
    Place(
        "a record that the full disk cut stays in the log",
        "core/sessions/log.py",
        "os.ftruncate(self._fd, self.extent.size)",
        "pass",
        "tests/unit/sessions/test_log.py::test_d4_a_full_disk_refuses_the_record_and_keeps_the_log_whole",
    ),
    Place(
        "a key leaves in two pieces",
        "core/engine/session/recorder.py",
        "if count := count_begun(text):",
        "if count := 0:",
        "tests/integration/test_keys_never_leave.py::test_n14_k2_a_key_that_the_model_repeats_is_in_no_log_and_no_output",
    ),
    # the review
    Place(
        "edits of both sides that touch are merged",
        "core/shadow/diff/three_way_merge.py",
        "if each.start > reach and",
        "if each.start >= reach and",
        "tests/unit/shadow/diff/test_three_way_merge.py::test_it_does_not_matter_which_side_is_ours_unless_it_is_preferred",
    ),
    Place(
        "the hunks behind an accepted one stay where they were",
        "core/shadow/diff/hunks.py",
        "shift += each.new_lines - each.old_lines",
        "shift += 0",
        "tests/unit/shadow/diff/test_hunks.py::test_any_subset_one_at_a_time_in_any_order_gives_the_same_as_at_once",
    ),
    Place(
        "files of which exactly one half is the same are no rename",
        "core/shadow/renames/similarity.py",
        "if each[0] >= MIN_SIMILARITY)",
        "if each[0] > MIN_SIMILARITY)",
        "tests/unit/shadow/renames/test_similarity.py::test_n16a_half_of_a_file_is_enough_for_a_rename_and_less_is_not",
        had_none=True,
    ),
    Place(
        "what the user rejected stays in git's index",
        "core/shadow/gitstate/outcome.py",
        ' != "missing" and not accepted.is_rejected_or_pending(entry)',
        ' != "missing"',
        "tests/unit/shadow/gitstate/test_outcome.py::test_n5_an_older_version_that_was_staged_and_not_accepted_is_taken_out_of_the_index",
        had_none=True,
    ),
    Place(
        "a bulk has no size",
        "core/shadow/bulk/bulk_summary.py",
        "count.size += entry.stats.st_size",
        "count.size += 0",
        "tests/unit/shadow/bulk/test_bulk_summary.py::test_the_bytes_of_a_bulk_are_those_of_all_of_its_files",
    ),
    Place(
        "a verdict is sent again after a crash",
        "tui/bridge.py",
        "                | commands.HunkResolve()\n",
        "",
        "tests/tui/test_bridge.py::test_what_must_not_be_done_twice_is_not_sent_again_when_the_engine_ended_with_it",
        had_none=True,
    ),
    Place(
        "a hunk whose verdict is under way gets a second one",
        "tui/review/verdicts.py",
        "tuple(hunk.id for hunk in change.hunks if hunk.id not in sent)",
        "tuple(hunk.id for hunk in change.hunks)",
        "tests/tui/test_review.py::test_the_last_verdict_of_a_file_leads_to_the_next_file",
    ),
    # edits of the model's
    Place(
        "of two places that come near the first is edited",
        "core/edits/matching/misspelling.py",
        "_MARGIN: Final = 0.1",
        "_MARGIN: Final = 0.0",
        "tests/unit/edits/matching/test_ladder.py::test_a_near_block_twice_is_never_fuzzy_matched",
    ),
    Place(
        "a draft deletes any number of lines that it does not mention",
        "core/edits/lazy/assembly.py",
        "removed > MAX_UNMENTIONED and",
        "removed > 100 * MAX_UNMENTIONED and",
        "tests/unit/edits/lazy/test_assembly.py::test_a_draft_that_drops_thirteen_lines_without_a_word_is_refused",
    ),
    # providers, settings, the screen
    Place(
        "a server that asks for more time than there is gets less",
        "core/agent/turn/retry.py",
        "asked = error.retry_after is not None and error.retry_after > left",
        "asked = False",
        "tests/unit/agent/turn/test_retry.py::test_retry_after_is_honoured_as_far_as_the_budget_goes",
    ),
    Place(
        "a project takes the user's limit off",
        "core/config/narrowing.py",
        "return theirs > 0 and (mine == 0 or theirs < mine)",
        "return mine == 0 or theirs < mine",
        "tests/unit/config/test_loading.py::test_m10_what_a_project_would_relax_is_ignored_and_said",
    ),
    Place(
        "a command is allowed of which a part is not visible",
        "tui/ask/approval_bar.py",
        'is_fully_visible(self.query_one("#approval-subject")) and super()',
        "super()",
        "tests/tui/test_permissions.py::test_m8_a_command_of_which_lines_are_cut_off_takes_no_answer_until_all_of_it_is_visible",
        had_none=True,
    ),
    Place(
        "letters that no hand strikes so fast are commands",
        "tui/input/keystrokes.py",
        "(len(commands) == 1 and not too_fast)",
        "len(commands) == 1",
        "tests/tui/test_strokes.py::test_n7b_what_comes_faster_than_a_hand_strikes_is_no_verdict",
    ),
    Place(
        "a Cyrillic letter in a Latin word looks Latin",
        "core/text/lookalikes.py",
        "            or mixed\n",
        "",
        "tests/unit/text/test_display_names.py::test_n14_what_could_be_taken_for_something_else_is_told",
    ),
    # what is known of the project
    Place(
        "what an edit replaces is found beside the pending text",
        "core/index/search/overlay.py",
        "return path in self._paths",
        "return False",
        "tests/unit/index/search/test_index_search.py::test_a_pending_text_is_found_and_what_it_replaces_is_not",
    ),
    Place(
        "a name that is defined everywhere decides the order",
        "core/index/search/ranker.py",
        "if not 0 < len(keys) <= MOST_DEFINITIONS:",
        "if not keys:",
        "tests/unit/index/search/test_ranker.py::test_a_name_that_is_defined_nearly_everywhere_tells_nothing",
        had_none=True,
    ),
    Place(
        "an index of another version is read",
        "core/index/database.py",
        'if read_meta(connection, "version") == VERSION:',
        'if read_meta(connection, "version"):',
        "tests/unit/index/test_database.py::test_an_index_of_another_version_is_made_anew_and_that_is_said",
    ),
    Place(
        "secrets are indexed",
        "core/index/walk.py",
        "may_be_secret(name) and is_secret(path, lambda _path, _is_dir: False)",
        "False",
        "tests/unit/index/test_walk.py::test_secrets_and_installed_packages_are_not_found",
    ),
    Place(
        "an API is asked for meaning though privacy is on",
        "core/engine/index/remote_meaning.py",
        "is_private = settings.privacy or find_private_directory(self._store / FILE_NAME)",
        "is_private = False",
        "tests/integration/test_remote_embeddings.py::test_privacy_forbids_it_and_says_so",
    ),
    Place(
        "a common word is taken for a symbol of the file beside it",
        "core/agent/mentions/plain_names.py",
        "elif len(name) > 1 and name.lower() not in _SHORT_WORDS:",
        "elif len(name) > 1:",
        "tests/unit/agent/mentions/test_resolution.py::test_names_in_a_plain_sentence_are_found",
        had_none=True,
    ),
    Place(
        "a second error like an old one is taken for the old one",
        "core/lsp/findings.py",
        "if known[key]:",
        "if key in known:",
        "tests/unit/lsp/test_findings.py::test_a_second_one_of_the_same_kind_is_new",
    ),
    Place(
        "columns are counted in bytes",
        "core/lsp/positions.py",
        '"surrogatepass")) // width',
        '"surrogatepass"))',
        "tests/unit/lsp/test_positions.py::test_a_place_survives_the_way_there_and_back",
    ),
    Place(
        "errors that are left are handed back again and again",
        "core/agent/gate/edit_diagnostics.py",
        "self._has_handed_back = True",
        "pass",
        "tests/integration/test_language_servers.py::test_what_an_edit_breaks_elsewhere_is_told_and_handed_back_once",
    ),
    Place(
        "rules bind though they were changed since the user trusted them",
        "core/config/rules/loading.py",
        'return "" if not self.place.is_project or self.is_trusted(shown, data) else UNTRUSTED_REASON',
        'return ""',
        "tests/unit/config/rules/test_loading.py::test_an_import_that_is_missing_untrusted_or_secret_is_said_and_not_read",
    ),
)
