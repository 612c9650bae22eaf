"""What is kept in the state directory: answers, trust, and the audit log."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

import pytest

from core.errors import ConfigError, StateError
from core.permissions import trust as identity
from core.permissions.approval import Approval, hash_value
from core.permissions.audit import AuditLog, find_log_fault, read_entries
from core.permissions.rules import parse_rule
from core.permissions.saved_rules import SavedRules, SessionRules
from core.permissions.trust import TrustStore, find_instructions, identify_directory, is_empty_directory
from core.secrets import register_secret
from core.user_dirs import get_state_dir

MAKE = Approval(subject="make", tier="T1", mode="agent")


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    return root


@pytest.mark.parametrize(
    "other",
    [
        {"subject": "make "},
        {"subject": "Make"},
        {"directory": "sub"},
        {"environment": ("CC",)},
        {"environment": ("CC",), "values": (hash_value("gcc"),)},
        {"tier": "T3"},
        {"mode": "debug"},
        {"network": ("example.org",)},
    ],
)
def test_m5_m6_one_byte_another_place_or_another_mode_is_another_approval(project, other):
    remembered = SavedRules(project)
    remembered.save("allow", MAKE)
    changed = Approval(**({"subject": "make", "tier": "T1", "mode": "agent"} | other))
    assert remembered.find_choice(MAKE) == "allow"
    assert changed.compute_digest() != MAKE.compute_digest()
    assert remembered.find_choice(changed) is None


def test_n16_m5_another_value_of_a_variable_is_another_approval(project):
    remembered = SavedRules(project)
    values = ("gcc", "gcc ", "", None)
    approvals = [Approval(subject="make", environment=("CC",), values=(hash_value(value),)) for value in values]
    remembered.save("allow", approvals[0])
    assert [remembered.find_choice(approval) for approval in approvals] == ["allow", None, None, None]
    assert "gcc" not in remembered.path.read_text()


def test_n3_what_was_allowed_in_a_directory_does_not_hold_in_one_that_took_its_place(project):
    remembered = SavedRules(project)
    remembered.save("allow", MAKE)
    remembered.save("deny", Approval(subject="rm"))
    made_anew(project)
    assert (remembered.find_choice(MAKE), remembered.find_choice(Approval(subject="rm"))) == (None, "deny")
    assert [saved_rule.choice for saved_rule in remembered.load()] == ["deny"]
    remembered.save("allow", MAKE)
    assert remembered.find_choice(MAKE) == "allow"


def test_m6_what_is_kept_is_the_digest_or_what_was_typed(project):
    remembered = SavedRules(project)
    remembered.save("allow", Approval(subject="git push --force"))
    assert remembered.parse_rules() == ()
    remembered.save("allow", MAKE, rule="Shell(npm run *)")
    assert [str(rule) for rule in remembered.parse_rules()] == ["Shell(npm run *)"]
    with pytest.raises(ConfigError):
        remembered.save("allow", MAKE, rule="npm")


def test_the_rules_of_a_session_are_the_configured_and_the_saved_ones_of_now(project):
    configured = [parse_rule("Shell(ls *)", "allow")]
    rules = SessionRules(lambda: tuple(configured), SavedRules(project))
    assert [str(rule) for rule in rules.load()] == ["Shell(ls *)"]
    configured.append(parse_rule("Read(.env)", "deny"))
    SavedRules(project).save("allow", MAKE, rule="WebFetch(example.org)")
    assert [str(rule) for rule in rules.load()] == ["Shell(ls *)", "Read(.env)", "WebFetch(example.org)"]


def test_answers_belong_to_one_project_and_can_be_forgotten(project, tmp_path):
    mine, other = SavedRules(project), SavedRules(tmp_path)
    saved_rule = mine.save("deny", MAKE)
    assert other.load() == ()
    assert mine.find_choice(MAKE) == "deny"
    assert not mine.remove("perm_none")
    assert mine.remove(saved_rule.id)
    assert mine.find_choice(MAKE) is None


def test_the_later_answer_to_the_same_question_counts(project):
    remembered = SavedRules(project)
    remembered.save("deny", MAKE)
    remembered.save("allow", MAKE)
    assert (remembered.find_choice(MAKE), len(remembered.load())) == ("allow", 1)


def test_k4_the_files_are_the_users_alone_and_not_reached_through_links(project):
    remembered = SavedRules(project)
    remembered.save("allow", MAKE)
    assert stat.S_IMODE(remembered.path.stat().st_mode) == 0o600
    elsewhere = project / "planted.json"
    elsewhere.write_bytes(remembered.path.read_bytes())
    remembered.path.unlink()
    remembered.path.symlink_to(elsewhere)
    with pytest.raises(StateError):
        remembered.load()


def test_a_damaged_file_is_an_error_and_is_left_as_it_is(project):
    remembered = SavedRules(project)
    remembered.save("allow", MAKE)
    remembered.path.write_text("{")
    with pytest.raises(StateError, match="can't be used"):
        remembered.find_choice(MAKE)
    with pytest.raises(StateError):
        remembered.save("allow", MAKE)
    assert remembered.path.read_text() == "{"


def test_i1_trust_is_for_this_directory_and_no_other(project, tmp_path):
    assert not TrustStore(project).has_trust()
    TrustStore(project).grant({})
    assert TrustStore(project).has_trust()
    (project / "sub").mkdir()
    assert not TrustStore(project / "sub").has_trust()
    assert not TrustStore(tmp_path).has_trust()
    TrustStore(project).revoke()
    assert not TrustStore(project).has_trust()


def test_i1_a_directory_that_took_the_place_of_another_is_asked_about_again(project, tmp_path):
    TrustStore(project).grant({})
    project.rename(tmp_path / "moved")
    assert not TrustStore(tmp_path / "moved").has_trust()
    (tmp_path / "moved").rename(project)
    assert TrustStore(project).has_trust()
    shutil.copytree(project, tmp_path / "copy")
    shutil.rmtree(project)
    (tmp_path / "other").mkdir()  # takes the inode that became free, if any does
    (tmp_path / "copy").rename(project)
    assert not TrustStore(project).has_trust()


def made_anew(directory: Path) -> None:
    """Another directory in the place of this one: with the same inode number, where the file system gives it again."""
    number = directory.stat().st_ino
    shutil.rmtree(directory)
    others = []
    for count in range(50):
        directory.mkdir()
        if directory.stat().st_ino == number:
            break
        others.append(directory.rename(directory.parent / f"other{count}"))
    else:
        directory.mkdir()


def test_n3_i1_a_directory_made_anew_is_asked_about_though_it_has_the_same_inode_number(project):
    (project / "a").write_text("x")
    TrustStore(project).grant({})
    before = identify_directory(project)
    made_anew(project)
    (project / "a").write_text("x")
    assert identify_directory(project) != before
    assert not TrustStore(project).has_trust()


def test_n3_without_a_time_of_birth_the_generation_of_the_inode_tells(project, monkeypatch):
    monkeypatch.setattr(identity, "_read_birth_time", lambda _: "")
    before = identify_directory(project)
    assert identify_directory(project) == before
    if not before.born:
        pytest.skip("this file system has no generations")
    made_anew(project)
    assert identify_directory(project) != before


def test_n3_an_identity_stays_when_the_directory_changes_or_moves(project, tmp_path):
    before = identify_directory(project)
    assert before.born, "the tests want a file system that knows times of birth, or generations"
    (project / "new").mkdir()
    project.chmod(0o755)
    os.utime(project, (1, 1))
    assert identify_directory(project.rename(tmp_path / "moved")) == before


def test_n3_what_was_trusted_before_files_were_told_apart_is_asked_about_again(project):
    stat_result = project.stat()
    book = {"directories": {str(project): {"device": stat_result.st_dev, "inode": stat_result.st_ino, "at": 1}}}
    get_state_dir().mkdir(parents=True, exist_ok=True)
    (get_state_dir() / "trust.json").write_text(json.dumps(book))
    assert not TrustStore(project).has_trust()
    TrustStore(project).grant({})
    assert TrustStore(project).has_trust()


def test_n3_the_digests_of_a_file_are_bounded_and_the_latest_stay(project):
    TrustStore(project).grant({"AGENTS.md": "0"})
    voices = TrustStore(project).load_files()
    for number in range(40):
        voices.trust({"AGENTS.md": str(number)})
    digests = json.loads((get_state_dir() / "trust.json").read_text())["directories"][str(project)]["files"][
        "AGENTS.md"
    ]
    assert digests == [str(number) for number in range(24, 40)]


def test_i1_nothing_in_the_project_gives_trust(project):
    (project / ".agent-tui").mkdir()
    (project / ".agent-tui" / "trust.json").write_text(json.dumps({"directories": {str(project): {}}}))
    stat_result = project.stat()
    book = {"directories": {str(project): {"device": stat_result.st_dev, "inode": stat_result.st_ino}}}
    (project / "trust.json").write_text(json.dumps(book))
    assert not TrustStore(project).has_trust()


def test_the_demos_own_copies_are_trusted(tmp_path):
    copy = get_state_dir().resolve() / "demo" / "till_1"
    copy.mkdir(parents=True)
    assert TrustStore(copy).has_trust()


def test_what_is_not_heard_is_found_by_name_alone(project):
    assert is_empty_directory(project)
    os.mkfifo(project / "AGENTS.md")
    (project / ".git").write_text("gitdir: /nowhere")
    assert find_instructions(project) == ("AGENTS.md", ".git")
    assert not is_empty_directory(project)


@pytest.fixture
def log(tmp_path):
    audit = AuditLog(tmp_path)
    for number in range(4):
        audit.record("command.ended", {"command": f"echo {number}"})
    audit.close()
    return tmp_path / "audit.jsonl"


def test_the_audit_log_is_sealed_line_by_line(log):
    assert find_log_fault(log) is None
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines).replace("echo 2", "echo 9"))
    assert find_log_fault(log) == "line 3 was changed"
    log.write_text("".join([*lines[:1], *lines[2:]]))
    assert find_log_fault(log) == "line 2 does not follow the one before it"
    log.write_text("".join([lines[0], lines[1], lines[1], *lines[2:]]))
    assert find_log_fault(log) == "line 3 does not follow the one before it"
    log.write_text("".join(lines) + "{")
    assert find_log_fault(log) == "line 5 can't be read"


def test_the_chain_goes_on_after_a_restart_and_after_a_torn_line(log):
    audit = AuditLog(log.parent)
    audit.record("file.written", {"path": "a"})
    audit.close()
    assert find_log_fault(log) is None
    with log.open("ab") as file:
        file.write(b'{"torn')
    audit = AuditLog(log.parent)
    audit.record("file.written", {"path": "b"})
    audit.close()
    assert [line.number for line in read_entries(log)] == [1, 2, 3, 4, 5, 6]
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_k2_no_key_gets_into_the_audit_log(log):
    register_secret("sk-planted-0123456789abcdef")
    audit = AuditLog(log.parent)
    audit.record("command.ended", {"command": "curl -H 'Authorization: Bearer sk-planted-0123456789abcdef'"})
    audit.close()
    assert "sk-planted" not in log.read_text()


def test_a_log_that_can_not_be_written_stops_what_it_would_tell_of(tmp_path):
    (tmp_path / "audit.jsonl").mkdir()
    with pytest.raises(StateError):
        AuditLog(tmp_path).record("approval.answered", {})
