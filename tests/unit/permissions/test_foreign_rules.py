"""Rules of other agents' files: each is translated as its own documentation reads it, or named with a reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.permissions.foreign_rules import ForeignPermissions, parse_foreign_rules

ROOT = Path("/work/project")


def claude(**permissions):
    data = json.dumps({"permissions": permissions}).encode()
    return parse_foreign_rules(".claude/settings.json", data, ROOT)


def texts(parsed):
    return [str(rule) for rule in parsed.rules]


@pytest.mark.parametrize(
    ("entry", "rules"),
    [
        ("Bash", ["Shell(*)"]),
        ("Bash(*)", ["Shell(*)"]),
        ("Bash(git push:*)", ["Shell(git push *)", "Shell(git push)"]),
        ("Bash(git push *)", ["Shell(git push *)", "Shell(git push)"]),
        ("Bash(git push*)", ["Shell(git push*)"]),
        ("Bash(* --force)", ["Shell(* --force)"]),
        ("Bash(npm publish)", ["Shell(npm publish)"]),
        ("Read", ["Read(**)"]),
        ("Read(.env)", ["Read(.env)"]),
        ("Read(./secrets/**)", ["Read(secrets/**)"]),
        ("Read(/secrets/**)", ["Read(/secrets/**)"]),
        ("Read(//work/project/keys/*)", ["Read(/keys/*)"]),
        ("Read(//work/**)", ["Read(**)"]),
        ("Edit(docs/**)", ["Write(docs/**)"]),
        ("Write(*.lock)", ["Write(*.lock)"]),
        ("NotebookEdit", ["Write(**)"]),
        ("WebFetch", ["WebFetch(*)"]),
        ("WebFetch(domain:Example.com)", ["WebFetch(example.com)"]),
        ("WebFetch(domain:*.example.com)", ["WebFetch(*.example.com)"]),
        ("mcp__github", ["Mcp(github:*)"]),
        ("mcp__github__*", ["Mcp(github:*)"]),
        ("mcp__github__create_issue", ["Mcp(github:create_issue)"]),
    ],
)
@pytest.mark.parametrize("choice", ["deny", "ask"])
def test_m10_rules_of_claude_code_that_deny_or_ask_become_ours(choice, entry, rules):
    parsed = claude(**{choice: [entry]})
    assert texts(parsed) == rules
    assert {(rule.choice, rule.source) for rule in parsed.rules} == {(choice, ".claude/settings.json")}
    assert parsed.unused == ()


@pytest.mark.parametrize(
    "entry",
    [
        "Read(~/.ssh/**)",
        "Read(//etc/passwd)",
        "Read(!.env)",
        "Task(Explore)",
        "Agent(model:opus)",
        "Skill(deploy)",
        "WebSearch",
        "Bash(run_in_background:true)",
        "WebFetch(https://example.com/x)",
        "Read(a*b*c*d*e*f*g*h)",
        "",
        "no rule at all",
    ],
)
def test_what_can_not_be_followed_is_named_with_a_reason(entry):
    parsed = claude(deny=[entry])
    assert parsed.rules == ()
    [unused] = parsed.unused
    assert unused.entry == f"deny {entry}".strip() or unused.entry == f"deny {entry}"
    assert unused.reason


def test_m10_nothing_is_taken_over_that_allows():
    assert claude(allow=["Bash", "Read(~/**)"], defaultMode="bypassPermissions").rules == ()
    cursor = json.dumps({"permissions": {"allow": ["Shell(*)"], "deny": []}}).encode()
    assert parse_foreign_rules(".cursor/cli.json", cursor, ROOT).rules == ()
    opencode = json.dumps({"permission": {"bash": "allow", "*": "allow"}}).encode()
    assert parse_foreign_rules("opencode.json", opencode, ROOT).rules == ()


@pytest.mark.parametrize(
    ("entry", "rules"),
    [
        ("Shell(rm)", ["Shell(rm *)", "Shell(rm)"]),
        ("Shell(curl:*)", ["Shell(curl *)", "Shell(curl)"]),
        ("Shell(npm:install*)", ["Shell(npm install*)"]),
        ("Shell(**)", ["Shell(*)"]),
        ("Read(.env*)", ["Read(.env*)"]),
        ("Read(/work/project/a/**)", ["Read(/a/**)"]),
        ("Write(**/*.key)", ["Write(**/*.key)"]),
        ("WebFetch(*.example.com)", ["WebFetch(*.example.com)"]),
        ("Mcp(github:delete_repo)", ["Mcp(github:delete_repo)"]),
        ("Mcp(github, *)", ["Mcp(github:*)"]),
    ],
)
def test_m10_rules_of_cursors_command_line_that_deny_become_ours(entry, rules):
    data = json.dumps({"version": 1, "permissions": {"allow": [], "deny": [entry]}}).encode()
    parsed = parse_foreign_rules("~/.cursor/cli-config.json", data, ROOT)
    assert (texts(parsed), parsed.unused) == (rules, ())


def opencode(permission, **more):
    data = f"// of a person\n{json.dumps({'permission': permission, **more})}".encode()
    return parse_foreign_rules("opencode.json", data, ROOT)


@pytest.mark.parametrize(
    ("table", "command", "choice"),
    [
        ({"*": "ask", "git *": "allow", "git push *": "deny"}, "make", "ask"),
        ({"*": "ask", "git *": "allow", "git push *": "deny"}, "git status", None),
        ({"*": "ask", "git *": "allow", "git push *": "deny"}, "git", None),
        ({"*": "ask", "git *": "allow", "git push *": "deny"}, "git push", "deny"),
        ({"git push *": "deny", "*": "allow"}, "git push", None),
        ({"rm *": "deny", "rm *.tmp": "ask"}, "rm a.tmp", "ask"),
        ("deny", "ls", "deny"),
    ],
)
def test_m10_in_opencodes_tables_the_last_matching_entry_wins(table, command, choice):
    rules = [rule for rule in opencode({"bash": table}).rules if rule.matches(command)]
    assert {rule.choice for rule in rules} == (set() if choice is None else {choice})


def test_m10_opencodes_permissions_for_all_tools_give_way_to_later_ones():
    parsed = opencode({"*": "ask", "bash": "allow", "edit": {"*": "deny", "docs/*.md": "allow"}, "todowrite": "deny"})
    kinds = {(rule.choice, rule.kind) for rule in parsed.rules}
    assert kinds == {("ask", "Read"), ("ask", "WebFetch"), ("ask", "Write"), ("deny", "Write")}
    [edit] = [rule for rule in parsed.rules if (rule.choice, rule.kind) == ("deny", "Write")]
    assert edit.matches("src/a.py")
    assert not edit.matches("docs/deep/a.md")
    assert [unused.entry for unused in parsed.unused] == ["permission.todowrite"]


def test_m10_opencodes_old_switches_and_servers_deny():
    parsed = opencode({"github_*": "ask"}, tools={"write": False, "db_drop_table": False, "bash": True})
    assert {str(rule) for rule in parsed.rules if rule.kind == "Write"} == {"Write(**)"}
    assert {str(rule) for rule in parsed.rules if rule.kind == "Mcp"} == {
        "Mcp(github:*)",
        "Mcp(db:drop_table)",
        "Mcp(db_drop:table)",
    }


def second(*rules, **more):
    """The second version's list of rules."""
    listed = [dict(zip(("action", "resource", "effect"), rule, strict=True)) for rule in rules]
    data = f"// of a person\n{json.dumps({'permissions': listed, **more})}".encode()
    return parse_foreign_rules("opencode.jsonc", data, ROOT)


@pytest.mark.parametrize(
    ("command", "choices"),
    [("make", {"ask"}), ("git status", set()), ("git status -s", set()), ("git push", {"ask", "deny"})],
)
def test_m10_in_opencodes_list_the_last_matching_rule_wins(command, choices):
    parsed = second(
        ("shell", "*", "ask"), ("shell", "git status *", "allow"), ("shell", "git push *", "deny"), ("*", "x", "allow")
    )
    assert {rule.choice for rule in parsed.rules if rule.kind == "Shell" and rule.matches(command)} == choices
    assert parsed.unused == ()


def test_m10_opencodes_list_narrows_each_kind_and_servers_and_names_what_it_can_not():
    parsed = second(
        ("*", "*", "ask"),
        ("read", "*", "allow"),
        ("read", "*.env", "deny"),
        ("edit", "packages/docs/*.mdx", "deny"),
        ("github_create_issue", "*", "deny"),
        ("subagent", "*", "deny"),
        permission={"bash": {"rm *": "deny"}},
    )
    rules = {str(rule) for rule in parsed.rules if rule.choice == "deny"}
    assert {
        "Read(/**.env)",
        "Write(/packages/docs/**.mdx)",
        "Mcp(github:create_issue)",
        "Mcp(github_create:issue)",
    } <= rules
    assert [rule for rule in parsed.rules if rule.choice == "deny" and rule.kind == "Shell"]
    assert not any(rule.choice == "allow" for rule in parsed.rules)
    assert [unused.entry for unused in parsed.unused] == ["permission.task"]


@pytest.mark.parametrize("rules", [3, {"shell": "deny"}, [3], [{"action": "shell", "effect": "deny"}]])
def test_a_list_of_opencode_that_can_not_be_read_is_named(rules):
    parsed = parse_foreign_rules("opencode.json", json.dumps({"permissions": rules}).encode(), ROOT)
    assert (parsed.rules, [unused.entry for unused in parsed.unused]) == ((), ["permissions"])


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"permissions": 3}', b'{"permissions": {"deny": "Bash"}}', b"\xff"])
def test_a_file_that_is_none_of_its_kind_gives_no_rule(data):
    assert parse_foreign_rules("~/.claude/settings.json", data, ROOT).rules == ()


def test_i1_the_files_of_a_project_count_after_the_trust_and_no_link_leads_out(tmp_path, monkeypatch):
    monkeypatch.setattr("core.permissions.foreign_rules.CHECK_SECONDS", 0.0)
    project = (tmp_path / "project").resolve()
    (project / ".claude").mkdir(parents=True)
    (project / ".claude/settings.json").write_text('{"permissions": {"deny": ["Bash(theirs)"]}}')
    (tmp_path / "outside.json").write_text('{"permission": {"bash": "deny"}}')
    (project / "opencode.json").symlink_to(tmp_path / "outside.json")
    mine = Path.home() / ".claude/settings.json"
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text('{"permissions": {"deny": ["Bash(mine)"]}}')
    foreign = ForeignPermissions(project)
    assert [rule.pattern for rule in foreign.load(is_trusted=False)] == ["mine"]
    assert [rule.pattern for rule in foreign.load(is_trusted=True)] == ["mine", "theirs"]
    mine.write_text('{"permissions": {"deny": ["Bash(changed)"]}}')
    assert [rule.pattern for rule in foreign.load(is_trusted=True)] == ["changed", "theirs"]
    mine.unlink()
    assert [rule.pattern for rule in foreign.load(is_trusted=True)] == ["theirs"]
