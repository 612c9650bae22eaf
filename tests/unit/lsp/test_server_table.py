"""Which servers run for a file: those that are there, one of a group, as the user configured them."""

from __future__ import annotations

from pathlib import Path

from core.config.settings import ServerSettings
from core.languages import detect_language
from core.lsp.server_table import LocatedServer, ServerFinder, configure_servers


def find(root: Path, path: str, installed: str = "", **configured: ServerSettings) -> list[LocatedServer]:
    programs = root / "bin"
    programs.mkdir(exist_ok=True)
    for name in installed.split():
        (programs / name).touch(mode=0o755)
    project = root / "project"
    project.mkdir(exist_ok=True)

    def read(rel: str) -> bytes | None:
        return (project / rel).read_bytes() if (project / rel).is_file() else None

    finder = ServerFinder(
        root=str(project),
        specs=configure_servers(configured),
        read=read,
        exists=lambda rel: (project / rel).exists(),
        search_path=str(programs),
    )
    return list(finder.find_servers(path, detect_language(path)))


def names(servers: list[LocatedServer]) -> list[str]:
    return [server.spec.name for server in servers]


def put(root: Path, path: str, text: str = "") -> None:
    (root / "project" / path).parent.mkdir(parents=True, exist_ok=True)
    (root / "project" / path).write_text(text)


def test_nothing_is_used_that_is_not_there(tmp_path):
    assert find(tmp_path, "a.py") == []
    assert names(find(tmp_path, "a.md", "ty ruff")) == []


def test_of_servers_for_types_one_runs_and_linters_beside_it(tmp_path):
    assert names(find(tmp_path, "a.py", "ty ruff basedpyright-langserver")) == ["ty", "ruff"]


def test_the_one_that_the_project_configures_comes_first(tmp_path):
    put(tmp_path, "pkg/pyrightconfig.json", "{}")
    servers = find(tmp_path, "pkg/a.py", "ty pyright-langserver")
    assert [(server.spec.name, server.directory) for server in servers] == [("pyright", "pkg")]


def test_the_projects_own_program_is_taken_before_the_one_on_path(tmp_path):
    put(tmp_path, "pyproject.toml", "[tool.ruff]")
    put(tmp_path, ".venv/bin/ruff")
    (server,) = find(tmp_path, "src/a.py", "ruff")
    assert server.program == str(tmp_path / "project/.venv/bin/ruff")
    assert (server.directory, server.spec.options) == (".", {})


def test_a_linter_that_nothing_configures_says_only_what_is_wrong_in_any_project(tmp_path):
    (server,) = find(tmp_path, "a.py", "ruff")
    assert server.spec.options == {"settings": {"lint": {"select": ["E9", "F"]}}}


def test_a_compiler_that_is_a_server_itself_is_one_from_version_7_on(tmp_path):
    put(tmp_path, "node_modules/.bin/tsc")
    put(tmp_path, "node_modules/.bin/typescript-language-server")
    put(tmp_path, "node_modules/typescript/package.json", '{"version": "5.9.3"}')
    assert names(find(tmp_path, "src/a.ts")) == ["typescript-language-server"]
    put(tmp_path, "node_modules/typescript/package.json", '{"version": "7.0.2"}')
    assert names(find(tmp_path, "src/a.ts")) == ["typescript"]
    put(tmp_path, "node_modules/typescript/package.json", "broken")
    assert names(find(tmp_path, "src/a.ts")) == ["typescript-language-server"]


def test_the_user_can_switch_off_change_and_add(tmp_path):
    off = ServerSettings(enabled=False)
    mine = ServerSettings(command=("my-server", "--stdio"), languages=("python", "restructuredtext"), roots=("x.cfg",))
    changed = ServerSettings(settings={"ruff": {"lineLength": 100}})
    servers = find(tmp_path, "a.py", "ty ruff my-server", ty=off, mine=mine, ruff=changed)
    assert names(servers) == ["mine", "ruff"]
    assert servers[1].spec.settings == {"ruff": {"lineLength": 100}}
    assert names(find(tmp_path, "a.rst", "my-server", mine=mine)) == ["mine"]
    assert names(find(tmp_path, "a.py", "my-server", mine=ServerSettings(command=("my-server",)))) == ["ty", "ruff"]
