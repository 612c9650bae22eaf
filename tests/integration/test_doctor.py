from __future__ import annotations

from pathlib import Path

import pytest

from core.cli.doctor import DoctorArguments, run
from core.exits import ExitCode
from core.sandbox.box import Tier
from core.sandbox.tiers.selection import TierReport, TierTrial
from core.search_paths import APPLE_STUB, _has_developer_tools
from core.sessions.store import SessionStore
from tests.support.configured import configured
from tests.support.provider_server import provider_server
from tests.support.trust import trust


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")  # nobody is asked
    root = tmp_path / "project"
    root.mkdir()
    return root


def told(project, capsys, *, probe: bool = False) -> tuple[int, dict[str, str], list[str]]:
    """The exit code, the text of each label (the last of a label), and all lines."""
    code = run(DoctorArguments(directory=project, probe=probe))
    lines = capsys.readouterr().out.splitlines()
    return code, {line[:12].strip(): line[12:] for line in lines}, lines


def test_a_fresh_machine_is_told_what_to_do_and_nothing_is_made(project, capsys, isolated):
    before = sorted(isolated.rglob("*"))
    code, report, lines = told(project, capsys)
    assert code == ExitCode.DONE
    assert report["model"].startswith("none: set a key, start a local model server")
    assert report["workspace"] == f"{project} (no git repository)"
    assert report["state"].endswith("agent-tui (will be created)")
    assert report["config"].endswith("(none: defaults apply)")
    providers = [line[12:] for line in lines if "http" in line]
    assert len({line.index("http") for line in providers}) == 1
    assert sorted(isolated.rglob("*")) == before


def test_the_repository_of_the_workspace_is_told_wherever_it_lies(project, capsys, tmp_path):
    for name in ("objects", "refs"):
        (tmp_path / ".git" / name).mkdir(parents=True)
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/trunk\n")
    assert told(project, capsys)[1]["workspace"] == f"{project} (part of the repository {tmp_path})"
    (project / ".git").write_text(f"gitdir: {tmp_path / '.git'}\n")
    assert told(project, capsys)[1]["workspace"] == f"{project} (.git is not a repository that knows this directory)"
    (project / ".git").unlink()
    (tmp_path / ".git").rename(project / ".git")
    assert told(project, capsys)[1]["workspace"] == str(project)


async def test_a_server_that_runs_is_shown_with_its_models_and_no_key_is_printed(project, monkeypatch):
    from core.cli.doctor import _format_models, _load_models
    from core.config.settings import Settings

    async with provider_server() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-secret-secret")
        rows = [text for _, text in _format_models(await _load_models(Settings()))]
    row = next(text for text in rows if text.startswith("openai"))
    assert "2 models" in row
    assert "environment variable OPENAI_API_KEY" in row
    assert server.openai_url in row
    assert "secret" not in "".join(rows)


def test_n3_i1_what_a_project_may_not_set_is_a_note_once_it_is_trusted(project, capsys):
    (project / ".agent-tui").mkdir()
    (project / ".agent-tui" / "config.toml").write_text('model = "x/y"\n')
    code, report, _ = told(project, capsys)
    assert (code, "note" in report, "not trusted" in report["project"]) == (ExitCode.DONE, False, True)
    trust(project)
    code, report, _ = told(project, capsys)
    assert code == ExitCode.DONE
    assert "`model` was ignored" in report["note"]


def test_what_keeps_a_session_from_working_fails_and_says_what_to_do(project, capsys, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AGENT_TUI_STATE_DIR", str(tmp_path / "file" / "state"))
    monkeypatch.setenv("AGENT_TUI_CONFIG_DIR", str(tmp_path))
    (tmp_path / "config.toml").write_text("mode = 'agnet'\n[ui]\ncolour = 3\n")
    code, _, lines = told(project, capsys)
    problems = [line for line in lines if line.startswith("PROBLEM")]
    assert code == ExitCode.FAILED
    assert "Set AGENT_TUI_STATE_DIR to one that is" in problems[0]
    assert "config.toml, line 1: `mode`" in problems[1]
    assert "config.toml, line 3: `ui.colour`" in problems[2]
    assert SessionStore(project).list_directories() == []


def test_the_root_of_the_file_system_is_refused_with_advice(capsys, project):
    from pathlib import Path

    code, report, _ = told(Path("/"), capsys)
    assert code == ExitCode.FAILED
    assert "Start in a project's own directory" in report["PROBLEM"]


def test_what_contains_commands_is_told_with_the_reason_for_each_stronger_tier(project, capsys, monkeypatch):
    reasons = (
        TierTrial(tier=Tier.NAMESPACES, ok=False, reason="unshare: refused [EPERM].", errno="EPERM", cure="Do this."),
        TierTrial(tier=Tier.LANDLOCK, ok=True),
    )

    async def found(_state, *, try_all):
        return TierReport(tier=Tier.LANDLOCK, reasons=reasons)

    monkeypatch.setattr("core.sandbox.tiers.selection.find_tier", found)
    code, told_of, lines = told(project, capsys)
    assert code == ExitCode.DONE
    assert told_of["commands"].startswith("T3: sandboxed, file changes go to review (Landlock")
    assert told_of["commands"].endswith("you are asked before each command")
    assert "            not T1: unshare: refused [EPERM]. Do this." in lines


def test_s18_a_probe_tries_every_tier_anew_and_keeps_nothing_where_no_state_is(project, capsys, isolated, monkeypatch):
    monkeypatch.setenv("AGENT_TUI_STATE_DIR", str(isolated / "no-state"))
    before = sorted(isolated.rglob("*"))
    _, _, lines = told(project, capsys, probe=True)
    tried = [line for line in lines if "blocked all attempts: outside, workspace" in line or "not T" in line]
    assert len(tried) == 5
    assert sorted(isolated.rglob("*")) == before


def test_the_language_servers_that_are_there_are_listed(project, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert told(project, capsys)[1]["LSP servers"].startswith("none found")
    for program in (tmp_path / "bin" / "gopls", project / ".venv" / "bin" / "ty"):
        program.parent.mkdir(parents=True)
        program.touch(mode=0o755)
    _, report, lines = told(project, capsys)
    assert report["LSP servers"] == f"ty for python: {project}/.venv/bin/ty"
    assert f"{'':12}gopls for go: {tmp_path}/bin/gopls" in lines


def test_hooks_are_counted_and_what_can_not_be_read_of_them_is_a_note(project, capsys):
    place = Path.home() / ".claude"
    place.mkdir()
    (place / "settings.json").write_text('{"hooks": }')
    (project / ".cursor").mkdir()
    (project / ".cursor/hooks.json").write_text('{"hooks": {"preToolUse": [{"command": "true", "matcher": "*.py"}]}}')
    code, report, lines = told(project, capsys)
    assert (code, report["hooks"]) == (ExitCode.DONE, "none, 1 more of the project need your trust")
    notes = [line[12:] for line in lines if line.startswith("note")]
    assert any(note.startswith("~/.claude/settings.json: none of its hooks runs: it is not JSON") for note in notes)
    assert any(
        note.startswith(".cursor/hooks.json: preToolUse: the matcher '*.py' is not a valid pattern") for note in notes
    )


def test_the_search_engine_and_the_browser_are_told_with_what_is_missing(project, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("core.mcp.browser._BROWSER_PATHS", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    _, report, _ = told(project, capsys)
    assert report["search"] == "none: no search engine is configured ([web.search] in config.toml)"
    assert report["browser"].startswith("There is no Chromium on this machine. Install it (apt install chromium)")
    for name in ("chromium", "node", "playwright-mcp"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    configured('[web.search]\nprovider = "searxng"\nbase_url = "http://me:secret-word@127.0.0.1:8080"\n')
    _, report, _ = told(project, capsys)
    assert report["search"] == "searxng at http://[redacted]@127.0.0.1:8080"
    assert report["browser"] == f"{tmp_path / 'chromium'}, {tmp_path / 'playwright-mcp'}"


def test_on_a_mac_no_linux_package_is_advised_and_apples_stub_is_no_git(project, capsys, monkeypatch, tmp_path):
    async def find(*, probe: bool) -> TierReport:
        return TierReport(tier=Tier.NONE, reasons=(missing,))

    monkeypatch.setattr("sys.platform", "darwin")
    missing = TierTrial(tier=Tier.BWRAP_COPY, ok=False, reason="bubblewrap is missing", cure="Install bubblewrap.")
    monkeypatch.setattr("core.cli.doctor._try_tiers", find)
    monkeypatch.setattr("shutil.which", lambda name, path=None: APPLE_STUB if name == "git" else None)
    _has_developer_tools.cache_clear()
    _, report, lines = told(project, capsys)
    _has_developer_tools.cache_clear()
    assert report["git"].endswith("/usr/bin/git only offers to install it (xcode-select --install)")
    assert not [line for line in lines if "bubblewrap" in line]
    assert "T1, T2 and T3 are made of parts of Linux" in "\n".join(lines)
