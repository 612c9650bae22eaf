"""`agent-tui clean` never takes what waits or is open; `agent-tui report` holds no key and nothing that was said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.arguments import PrintArguments
from core.cli import clean, report
from core.cli.print_mode.headless import run_print
from core.clock import now_ms
from core.crash_reports import save_crash_report
from core.engine.session.closed_sessions import record_change
from core.exits import ExitCode
from core.protocol.events import SessionTagged
from core.sessions.store import SessionStore
from core.user_dirs import get_cache_dir, get_config_dir
from tests.support.agent_case import calls, says
from tests.support.story import access, project_at
from tui.settings_check import check_interface

WRITE = calls(("write", {"file_path": "b.txt", "contents": "b\n"}))
PROMPT = "the prompt that nobody else may read"
LATER = now_ms() + 1_000_000_000  # all that there is was used before


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr("sys.stdin", None)
    return project_at(tmp_path / "project")


def talk(project: Path, *answers: object) -> Path:
    """Have a session and return its directory."""
    run_print(PrintArguments(directory=project, prompt=PROMPT), models=access([*answers, says("Done.")]))
    return SessionStore(project).list_directories()[0]


def list_paths(used_before: int = LATER) -> set[Path]:
    return {Path(leftover.path) for leftover in clean.find_leftovers(used_before=used_before)}


def test_a_session_in_which_something_waits_is_never_among_it(project):
    waiting, done = talk(project, WRITE), talk(project)
    assert done in list_paths()
    assert waiting not in list_paths()
    assert clean.run(clean.parse(["--yes"])) == ExitCode.DONE
    assert done.exists(), "it has not expired"


def test_what_was_fetched_for_servers_is_listed_by_package_and_not_among_the_caches():
    packages = [get_cache_dir() / "mcp-packages" / name for name in ("time-1", "everything-2")]
    for folder in (*packages, get_cache_dir() / "models"):
        folder.mkdir(parents=True)
    listed = [(leftover.what, Path(leftover.path).name) for leftover in clean.find_leftovers(used_before=LATER)]
    assert ("packages of MCP servers, fetched again after a yes", "time-1") in listed
    assert ("caches, rebuilt when needed", "models") in listed
    assert "mcp-packages" not in {name for _, name in listed}
    assert clean.run(clean.parse(["--yes"])) == ExitCode.DONE
    assert not any(folder.exists() for folder in packages)


def test_a_session_with_a_tag_or_with_files_of_its_own_stays(project):
    tagged = talk(project)
    record_change(SessionStore(project), tagged.name, SessionTagged(tags=("keep",)))
    (project / ".gitignore").write_text(".env\n")
    env_session = talk(project, calls(("run_terminal_cmd", {"command": "echo KEY=1 > .env"})))
    plain = talk(project)
    paths = list_paths()
    assert (tagged in paths, env_session in paths, plain in paths) == (False, False, True)


def test_a_session_that_is_open_keeps_its_index_and_what_has_expired_goes(project, capsys, monkeypatch):
    done = talk(project)
    index, cache = done.parents[1] / "index.sqlite", done.parents[1] / "cache"
    index.write_bytes(b"x" * 5000)
    cache.mkdir(exist_ok=True)
    assert {done, index, cache} <= list_paths()
    held = SessionStore(project).open(done.name)
    assert not {done, index, cache} & list_paths()
    held.close()
    monkeypatch.setattr(clean, "now_ms", lambda: LATER + 100 * 24 * 3600 * 1000)
    assert clean.run(clean.parse([])) == ExitCode.DONE
    assert "Nothing was deleted" in capsys.readouterr().out
    assert done.exists()
    assert clean.run(clean.parse(["--yes"])) == ExitCode.DONE
    assert not any(path.exists() for path in (done, index, cache))
    assert "Deleted: " in capsys.readouterr().out


def test_a_session_whose_log_is_damaged_is_left_alone(project):
    done = talk(project)
    with (done / "log.jsonl").open("ab") as log:
        log.write(b"half a rec")
    (done / "summary.json").unlink(missing_ok=True)
    assert done not in list_paths()


def test_caches_and_crash_reports_are_listed_with_their_sizes(project, capsys):
    (get_cache_dir() / "models").mkdir(parents=True)
    (get_cache_dir() / "models/host.json").write_bytes(b"x" * 20_000)
    fault = Path(save_crash_report(ValueError("broken"), "a test"))
    clean.run(clean.parse(["--json"]))
    rows = {row["path"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows[str(get_cache_dir() / "models")]["size"] >= 20_000
    assert str(fault) in rows


def test_a_report_has_what_helps_and_neither_keys_nor_words(project, monkeypatch, capsys, tmp_path):
    get_config_dir().mkdir(parents=True, exist_ok=True)
    (get_config_dir() / "config.toml").write_text(
        '[providers.work]\nbase_url = "https://me:hidden-pass@host/v1"\nheaders = { x = "hidden-header" }\n'
        'key_command = "echo hidden-key"\n[ui]\ntheme = "nrd"\n'
    )
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hidden0123456789abcdef")
    monkeypatch.setenv("TERM_PROGRAM", "a-terminal")
    monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:9")
    talk(project)
    save_crash_report(ValueError("sk-hidden0123456789abcdef was refused"), "a test")
    out = tmp_path / "report.md"
    capsys.readouterr()
    arguments = report.parse([str(project), "--out", str(out)])
    assert report.run(arguments, check_interface=lambda ui: check_interface(ui.theme, ui.keymap)) == ExitCode.DONE
    text = capsys.readouterr().out
    assert out.read_text() == text
    assert "hidden" not in text
    assert PROMPT not in text
    assert str(Path.home()) not in text
    for words in ("agent-tui", "Python 3", "a-terminal", "providers", "no theme 'nrd'", "ValueError"):
        assert words in text
