"""Which package a command of npx or uvx would download, and which commands can't be followed."""

from __future__ import annotations

import json

import pytest

from core.errors import ConfigError
from core.mcp.package_servers import explain_network, find_missing, parse_package

NPM = "npm"
PYTHON = "Python"


@pytest.mark.parametrize(
    ("line", "registry", "spec", "name", "program", "extras", "arguments"),
    [
        ("npx -y @scope/server-files /data", NPM, "@scope/server-files", "@scope/server-files", "", (), ("/data",)),
        ("npx --yes srv@1.2.3 --port 1", NPM, "srv@1.2.3", "srv", "", (), ("--port", "1")),
        ("npx srv@latest", NPM, "srv@latest", "srv", "", (), ()),
        ("/usr/bin/npx -y srv", NPM, "srv", "srv", "", (), ()),
        ("npx -y -p srv -p other tool -x", NPM, "srv", "srv", "tool", ("other",), ("-x",)),
        ("npx --package=@s/srv@^2 -- tool a", NPM, "@s/srv@^2", "@s/srv", "tool", (), ("a",)),
        ("npm exec -y -- srv a -- b", NPM, "srv", "srv", "", (), ("a", "--", "b")),
        ("npm x srv -- a", NPM, "srv", "srv", "", (), ("a",)),
        (
            "uvx mcp-server-time --zone=X",
            PYTHON,
            "mcp-server-time",
            "mcp-server-time",
            "mcp-server-time",
            (),
            ("--zone=X",),
        ),
        ("uvx srv@1.0", PYTHON, "srv==1.0", "srv", "srv", (), ()),
        ("uvx srv@latest", PYTHON, "srv", "srv", "srv", (), ()),
        ("uvx srv[cli]", PYTHON, "srv[cli]", "srv", "srv", (), ()),
        ("uvx --from pkg[x]>=2 --with more tool", PYTHON, "pkg[x]>=2", "pkg", "tool", ("more",), ()),
        ("uv tool run -q srv a", PYTHON, "srv", "srv", "srv", (), ("a",)),
        ("uvx -p 3.12 srv", PYTHON, "srv", "srv", "srv", (), ()),
    ],
)
def test_a_package_is_told_from_a_command_line(tmp_path, line, registry, spec, name, program, extras, arguments):
    package = parse_package(tuple(line.split()), tmp_path)
    assert package is not None
    assert (package.registry, package.spec, package.name) == (registry, spec, name)
    assert (package.program, package.extras, package.arguments) == (program, extras, arguments)


@pytest.mark.parametrize("line", ["python3 server.py", "node x.js", "npm run server", "uv run server.py", "deno x", ""])
def test_a_command_that_downloads_nothing_has_no_package(tmp_path, line):
    assert parse_package(tuple(line.split()), tmp_path) is None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("npx -y github:a/b", "not the name of an npm package"),
        ("npx -y https://evil.example/x.tgz", "not the name of an npm package"),
        ("npx -y ./local", "not the name of an npm package"),
        ("npx -y file:../x", "not the name of an npm package"),
        ("npx -y a/../b", "not the name of an npm package"),
        ("npx --registry=https://evil.example srv", "can't be followed here"),
        ("npx -c echo", "can't be followed here"),
        ("npx -y", "is not told what to run"),
        ("uvx --index-url https://evil.example srv", "can't be followed here"),
        ("uvx --from git+https://evil.example/x srv", "not the name of a Python package"),
        ("uvx --with ../x srv", "not the name of a Python package"),
        ("uvx -p ../python srv", "not a version of Python"),
        ("bunx srv", "outside of the sandbox"),
        ("pnpm dlx srv", "outside of the sandbox"),
        ("docker run -i image", "outside of the sandbox"),
    ],
)
def test_i3_an_entry_chooses_no_source_but_a_package_by_its_name(tmp_path, line, reason):
    with pytest.raises(ConfigError, match=reason):
        parse_package(tuple(line.split()), tmp_path)
    assert find_missing(tuple(line.split()), tmp_path) is None


def test_what_the_project_has_installed_runs_as_it_is(tmp_path):
    manifest = tmp_path / "node_modules/@s/srv/package.json"
    manifest.parent.mkdir(parents=True)
    manifest.write_text("{}")
    assert parse_package(("npx", "@s/srv"), tmp_path) is None
    assert parse_package(("npx", "@s/srv@2"), tmp_path) is not None


@pytest.mark.parametrize(
    ("programs", "program", "chosen"),
    [
        ({"only": "x.js"}, "", "only"),
        ({"srv": "x.js", "other": "y.js"}, "", "srv"),
        ({"one": "x.js", "two": "y.js"}, "", None),
        ({"one": "x.js", "two": "y.js"}, "two", "two"),
        ("x.js", "", "srv"),
    ],
)
def test_the_program_of_an_installed_package_is_the_one_that_npx_would_start(tmp_path, programs, program, chosen):
    words = ("npx", "-p", "@s/srv", program, "a") if program else ("npx", "@s/srv", "a")
    package = parse_package(words, tmp_path)
    assert package is not None
    folder = package.folder / "node_modules"
    (folder / "@s/srv").mkdir(parents=True)
    (folder / ".bin").mkdir()
    (folder / "@s/srv/package.json").write_text(json.dumps({"name": "@s/srv", "bin": programs}))
    for name in ("only", "srv", "other", "one", "two"):
        (folder / ".bin" / name).touch()
    assert package.find_command() == (None if chosen is None else (f"{folder}/.bin/{chosen}", "a"))


def test_a_failure_by_the_network_says_so():
    assert "no network in the sandbox" in explain_network("Error: getaddrinfo EAI_AGAIN api.example.com")
    assert explain_network("Error: no such file") == ""
