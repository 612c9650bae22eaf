"""Rules: what they match, which of them wins, and how they come from the configuration."""

from __future__ import annotations

import pytest

from core.config.loading import load_with_notices
from core.errors import CommandRejected, ConfigError
from core.modes import Access
from core.permissions.policy import CommandTerms, check_pattern, decide_call, decide_path
from core.permissions.rules import PermissionRule, matches_host, parse_rule
from core.user_dirs import get_config_dir
from tests.unit.permissions.test_shell_parser import TRICKS

HELD = CommandTerms(is_contained=True)
AUTO = CommandTerms(is_contained=True, is_unasked=True)


def rules(**by_choice: str) -> list[PermissionRule]:
    return [parse_rule(text, choice) for choice, texts in by_choice.items() for text in texts.split("|")]


def choice(command: str, terms: CommandTerms = HELD, **by_choice: str) -> str:
    return decide_call(Access.EXEC, command, terms, rules=rules(**by_choice)).choice


@pytest.mark.parametrize("command", TRICKS)
def test_m7_no_pattern_but_the_star_allows_what_can_not_be_taken_apart(command):
    patterns = {f"{command[:size]}*" for size in range(1, len(command)) if command[:size].strip()}
    narrower = [PermissionRule(choice="allow", kind="Shell", pattern=pattern) for pattern in patterns if pattern != "*"]
    files = rules(allow="Write(**)|Read(**)")
    assert decide_call(Access.EXEC, command, HELD, rules=[*narrower, *files]).choice == "ask"
    assert choice(command, allow="Shell(*)") == "allow"


def test_m7_the_star_gives_way_to_whatever_is_stricter():
    assert choice("ls > $HOME/x", allow="Shell(*)", ask="Shell(rm *)") == "ask"
    assert choice("rm -rf x", allow="Shell(*)", deny="Shell(rm *)") == "deny"
    assert choice("for i in a; do rm $i; done", allow="Shell(*)", deny="Shell(rm *)") == "ask"
    assert choice("ls", CommandTerms(is_contained=False), allow="Shell(*)") == "ask"
    assert choice("ls", CommandTerms(is_contained=True, is_manual=True), allow="Shell(*)") == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "find . -exec rm x",
        "rg --pre sh x",
        "sed -n w/etc/x",
        "sort -o x y",
        "tar --checkpoint-action=exec=x",
        "make -n",
    ],
)
def test_m7_nothing_is_classed_as_harmless_by_its_text(command):
    assert choice(command) == "ask"
    assert choice(command, allow="Shell(git *)") == "ask"


def test_every_part_of_a_compound_command_must_pass():
    allow = "Shell(git status)|Shell(npm run *)"
    assert choice("git status && npm run x", allow=allow) == "allow"
    assert choice("git status && npm run x; rm y", allow=allow) == "ask"
    assert choice("npm run $(rm y)", allow=allow) == "ask"
    assert choice("git status", CommandTerms(is_contained=False), allow=allow) == "ask"


def test_deny_is_stronger_than_ask_and_ask_than_allow():
    assert choice("git push", allow="Shell(git *)", ask="Shell(git push*)") == "ask"
    assert choice("git push", AUTO, allow="Shell(git *)", ask="Shell(git push*)", deny="Shell(git push)") == "deny"
    assert choice("ls && 'git' push", AUTO, deny="Shell(git push*)") == "deny"
    assert choice("X=1 /usr/bin/git push", AUTO, deny="Shell(git push*)") == "deny"
    assert choice("echo $(git push)", AUTO, deny="Shell(git push*)") == "deny"


@pytest.mark.parametrize("command", ["bash -c 'git push'", "eval x", "g${x}it push", "xargs git < list", "l* push"])
def test_where_commands_are_refused_what_could_hide_one_is_asked_about(command):
    assert choice(command, AUTO) == "allow"
    assert choice(command, AUTO, deny="Shell(git push*)") == "ask"


def test_redirections_are_judged_as_reads_and_writes():
    assert choice("make > out/log", allow="Shell(make)") == "ask"
    assert choice("make > out/log", allow="Shell(make)|Write(out/**)") == "allow"
    assert choice("make > ../log", allow="Shell(make)|Write(**)") == "ask"
    assert choice("make > /etc/x", allow="Shell(make)|Write(**)") == "ask"
    assert (
        choice("make > log", CommandTerms(is_contained=True, directory="out"), allow="Shell(make)|Write(out/*)")
        == "allow"
    )
    assert choice("sort < .env", AUTO, deny="Read(**/.env)") == "deny"
    assert choice("echo > src/x", AUTO, ask="Write(src/**)") == "ask"


def test_m6_a_remembered_answer_holds_below_rules_that_are_stricter():
    assert choice("make", CommandTerms(is_contained=True, saved_choice="allow")) == "allow"
    assert choice("make", CommandTerms(is_contained=False, saved_choice="allow")) == "ask"
    assert choice("make", CommandTerms(is_contained=True, saved_choice="allow"), ask="Shell(make)") == "ask"
    assert choice("make", CommandTerms(is_contained=True, is_unasked=True, saved_choice="deny")) == "deny"


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("**/.env", ".env", True),
        ("**/.env", "a/b/.env", True),
        (".env", "a/.env", True),
        ("src/**", "src/a/b.py", True),
        ("src/**", "src", False),
        ("src/*.py", "src/a/b.py", False),
        ("src/", "src/a/b", True),
        ("docs/?.md", "docs/a.md", True),
        ("a.c", "abc", False),
    ],
)
def test_paths_are_globs(pattern, path, matches):
    assert parse_rule(f"Write({pattern})", "allow").matches(path) is matches


def test_a_rule_that_refuses_sees_names_as_a_lenient_file_system_does():
    deny = rules(deny="Read(**/.env)")
    assert decide_path(Access.READ, "a/.ENV", rules=deny).choice == "deny"
    assert decide_path(Access.READ, "a/.e\u200cnv", rules=deny).choice == "deny"
    assert not parse_rule("Read(**/.env)", "allow").matches(".ENV")


def test_p20_a_secret_is_asked_about_unless_a_rule_allows_it():
    assert decide_path(Access.READ, ".env", rules=[], is_secret=True).choice == "ask"
    assert decide_path(Access.READ, ".env", rules=rules(allow="Read(.env)"), is_secret=True).choice == "allow"
    assert decide_path(Access.PROPOSE, ".env", rules=[], is_secret=True).choice == "allow"


@pytest.mark.parametrize(
    ("pattern", "host", "matches"),
    [
        ("example.org", "example.org", True),
        ("example.org", "x.example.org", False),
        ("*.example.org", "x.y.example.org", True),
        ("*.example.org", "example.org", False),
        ("*.example.org", ".example.org", False),
        ("*.example.org", "evilexample.org", False),
        ("*", "any.host", True),
    ],
)
def test_a_host_is_exact_or_all_below_it(pattern, host, matches):
    assert matches_host(pattern, host) is matches


def test_m6_a_pattern_that_is_kept_must_speak_of_the_command():
    check_pattern("npm run *", "npm run x && npm run y", "allow")
    check_pattern("npm *", "cd a; npm run x", "deny")
    for pattern, command in [("npm run *", "npm run x; rm y"), ("git *", "npm run x"), ("cat *", "cat <<E\nE")]:
        with pytest.raises(CommandRejected):
            check_pattern(pattern, command, "allow")


def configured(text: str, project=None, theirs: str = ""):
    get_config_dir().mkdir(parents=True, exist_ok=True)
    (get_config_dir() / "config.toml").write_text(text)
    if project is not None:
        (project / ".agent-tui").mkdir(exist_ok=True)
        (project / ".agent-tui" / "config.toml").write_text(theirs)
    return load_with_notices(project)


def test_rules_come_from_the_users_file():
    config = configured('[permissions]\nallow = ["Shell(git *)"]\nask = ["Write(src/**)"]\ndeny = ["Read(**/.env)"]\n')
    assert [(rule.choice, str(rule)) for rule in config.settings.permissions.parse_rules()] == [
        ("allow", "Shell(git *)"),
        ("ask", "Write(src/**)"),
        ("deny", "Read(**/.env)"),
    ]


def test_m10_a_projects_file_can_only_ask_and_refuse(tmp_path):
    theirs = '[permissions]\nallow = ["Shell(*)", "WebFetch(*)"]\nask = ["Shell(make*)"]\ndeny = ["Shell(rm *)"]\n'
    config = configured('[permissions]\nallow = ["Shell(ls)"]\ndeny = ["Shell(x)"]\n', tmp_path, theirs)
    permissions = config.settings.permissions
    assert permissions.allow == ("Shell(ls)",)
    assert permissions.ask == ("Shell(make*)",)
    assert permissions.deny == ("Shell(x)", "Shell(rm *)")
    assert [notice for notice in config.notices if "permissions.allow" in notice]


def test_m10_nothing_else_of_a_project_relaxes_either(tmp_path):
    theirs = 'model = "a/b"\n[commands]\npolicy = "auto"\n[providers.openai]\nbase_url = "http://evil"\n'
    config = configured('[commands]\npolicy = "human"\n', tmp_path, theirs)
    assert (config.settings.commands.policy, config.settings.providers, config.settings.model) == ("human", {}, "")
    assert len(config.notices) == 3


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('[permissions]\nallow = [\n  "Shell(ls)",\n  "Shel(ls)",\n]\n', 4, "not a permission rule"),
        ('[permissions]\ndeny = ["WebFetch(http://x)"]\n', 2, "does not name a host"),
        ('[permissions]\nask = ["Read(../x)"]\n', 2, "outside the workspace"),
        ('[permissions]\nask = "Read(x)"\n', 2, "permissions.ask"),
        ("[permissions]\nrefuse = []\n", 2, "unknown key"),
    ],
)
def test_a_mistake_is_told_with_file_line_and_key(text, line, words):
    with pytest.raises(ConfigError, match=words) as exception_info:
        configured(text)
    assert f"config.toml, line {line}:" in exception_info.value.message


@pytest.mark.parametrize(
    ("pattern", "path", "is_denied"),
    [
        ("[ab]/**", "a/x", True),
        ("[ab]/**", "[ab]/x", True),
        ("[ab]/**", "c/x", False),
        ("[!a]x", "bx", True),
        ("[!a]x", "ax", False),
        ("[z-a]", "[z-a]", True),
        ("{infra,ops}/**", "ops/x", True),
        ("{infra,ops}/**", "src/x", False),
        ("*.{tf,hcl}", "deep/main.tf", True),
        ("{a,b*}/c", "bxx/c", True),
        ("infra", "infra/a", True),
        ("infra", "deep/infra/a/b", True),
        ("deep/infra", "deep/infra/a", True),
        ("infra", "infrared/a", False),
        ("*.py", "x.py/a", False),
        ("src/*", "src/a/b", False),
    ],
)
def test_n24_a_rule_that_denies_means_what_its_pattern_may_mean(pattern, path, is_denied):
    assert parse_rule(f"Write({pattern})", "deny").matches(path) is is_denied


def test_n24_a_rule_that_allows_takes_brackets_braces_and_names_as_they_are():
    for pattern, path in (("[ab]/x", "a/x"), ("{a,b}/x", "a/x"), ("src", "src/a")):
        assert not parse_rule(f"Write({pattern})", "allow").matches(path)
    assert parse_rule("Write(app/[id]/page.tsx)", "allow").matches("app/[id]/page.tsx")
