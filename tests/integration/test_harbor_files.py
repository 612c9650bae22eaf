"""The files for Harbor, which is no dependency: they fit the program as it is, and install no name of an index."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from core.cli.acp import parse as parse_acp
from core.cli.arguments import parse
from tests.support.commits import git

ROOT = Path(__file__).parents[2]
HARBOR = ROOT / "integrations" / "harbor"
ADAPTER = (HARBOR / "agent_tui_agent.py").read_text()
INSTALLER = HARBOR / "install.sh"


def test_each_code_that_chooses_an_exception_is_one_of_ours():
    codes = {code for group in re.findall(r'_match_codes\("([A-Z_|]+)"', ADAPTER) for code in group.split("|")}
    sources = "\n".join(path.read_text() for path in (ROOT / "core").rglob("*.py"))
    known = {code.upper() for code in re.findall(r'"([a-z]+(?:_[a-z]+)+|stalled|overloaded|unreachable)"', sources)}
    assert len(codes) > 15
    assert codes - known == set()


def test_the_options_of_the_adapter_are_options_of_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = set(re.findall(r'"(--[a-z-]+)"', ADAPTER)) - {"--version"}
    values = {
        "--model": "ollama/m", "--accept": "all", "--sandbox": "in-place", "--allow": "Shell(*)", "--mode": "agent",
        "--output-format": "json", "--trajectory": "t.json", "--max-steps": "3", "--max-cost": "1",
        "--time-limit": "5m", "--allowed-tools": "read_file", "--effort": "high",
    }  # fmt: skip
    flags = names - set(values)
    assert flags == {"--trust", "--exit-zero", "--i-know"}
    assert set(values) - names == set()
    words = [word for name, value in values.items() for word in (name, value)]
    assert parse(["-p", "x", *words, *flags]).directory == tmp_path


def test_the_entry_starts_the_acp_server(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    entry = json.loads((HARBOR / "acp-registry-entry.json").read_text())
    target = entry["distribution"]["local"]
    assert target["args"][0] == "acp"
    assert parse_acp(target["args"][1:]).trust
    assert target["env"] == {"AGENT_TUI_SANDBOX": "in-place"}
    assert f'PLACE = "{target["cmd"].removesuffix("/bin/agent-tui")}"' in ADAPTER


def test_the_installer_takes_a_file_or_a_checkout_and_nothing_else(tmp_path):
    ast.parse(ADAPTER)
    place = tmp_path / "place"
    for word in ("agent-tui", "agent-tui==0.1.0"):
        done = subprocess.run(["sh", INSTALLER, word, place], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (2, f"install.sh: {word} is neither a wheel nor a checkout\n")
    assert not place.exists()


@pytest.mark.parametrize("is_checkout", [False, True])
def test_the_installer_installs_what_it_is_given(tmp_path, is_checkout):
    package, place, tools = tmp_path / "package", tmp_path / "place", tmp_path / "tools"
    package.mkdir()
    if is_checkout:
        (package / "requirements.lock").touch()
    tools.mkdir()
    write_tool(tools / "python3", 'if [ "$1" = -c ]; then echo /usr/bin/python3; exit; fi\n')
    fake = f"""mkdir -p {place}/bin
printf '#!/bin/sh\\necho "$@" >> {tmp_path}/said\\n' > {place}/bin/python
cp {place}/bin/python {place}/bin/agent-tui
chmod +x {place}/bin/*
"""
    script = tmp_path / "install.sh"
    text = INSTALLER.read_text().replace('"$python" -m venv "$directory"', fake)
    script.write_text(text)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(tmp_path / "home")}
    subprocess.run(["sh", script, package, place], env=environment, check=True, capture_output=True)
    lines = (tmp_path / "said").read_text().splitlines()
    assert all("-m pip" in line for line in lines[:-1])
    assert lines[-2].endswith(f"install {'--no-deps --no-build-isolation ' if is_checkout else ''}{package}")
    assert any("--require-hashes" in line for line in lines) == is_checkout
    assert lines[-1] == "--version"


def write_tool(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)


def test_the_files_are_in_the_repository():
    listed = git(ROOT, "ls-files", "integrations/harbor").split()
    assert {Path(name).name for name in listed} == {path.name for path in HARBOR.iterdir() if path.is_file()}
