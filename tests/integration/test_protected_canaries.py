"""Each protected file is one because a tool acts on it: an innocent command is run over it, and leaves a canary."""

from __future__ import annotations

import os
import pwd
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import Struct

from core.workspace.protected_files import find_file_risk

TOUCH = "import pathlib; pathlib.Path('CANARY').touch()\n"
SCRIPT = "#!/bin/sh\ntouch CANARY\n"
LIBRARY = '#include <fcntl.h>\n__attribute__((constructor)) void f(void) { creat("CANARY", 0600); }\n'
CRATE = '[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n'
PYTHON = f"PYTHONPATH=. {sys.executable} -c pass"
BASE_PYTHON = f"PYTHONPATH=. {sys.base_prefix}/bin/python3 -c pass"  # a virtual environment has no user's site
ENTRY = '{{"name": "x", "version": "1.0.0", "scripts": {{"{}": "touch CANARY"}}}}'
INSTALL = "npm install --offline --no-audit --no-fund"
CALLED = '{"name": "x", "scripts": {"innocent": "true"}}'


class Row(Struct, frozen=True):
    """`path` with `text` makes `command` of `tool` act. `others`: files that stand there already."""

    path: str
    text: str
    command: str
    tool: str
    others: dict[str, str] = {}


CARGO = {"Cargo.toml": CRATE, "src/lib.rs": ""}
ROWS = (
    Row("sitecustomize.py", TOUCH, PYTHON, sys.executable),
    Row("sitecustomize/__init__.py", TOUCH, PYTHON, sys.executable),
    Row("sitecustomize.pyc", TOUCH, PYTHON, sys.executable),
    Row("sitecustomize.so", LIBRARY, PYTHON, "cc"),
    Row("sitecustomize.abi3.so", LIBRARY, PYTHON, "cc"),
    Row("usercustomize/__init__.py", TOUCH, BASE_PYTHON, sys.executable),
    Row("usercustomize.so", LIBRARY, BASE_PYTHON, "cc"),
    Row("env/bin/python", SCRIPT, "env/bin/python --version", "sh"),
    Row("env/bin/activate", "touch CANARY\n", ". env/bin/activate", "sh"),
    *(Row("package.json", ENTRY.format(name), INSTALL, "npm") for name in ("preinstall", "postinstall", "prepare")),
    Row(
        "package.json",
        '{"name": "x", "scripts": {"prepare": "npm run -s deep", "deep": "touch CANARY"}}',
        INSTALL,
        "npm",
    ),
    Row("package.json", ENTRY.format("pnpm:devPreinstall"), "pnpm install --offline", "pnpm"),
    Row(".npmrc", "script-shell=./x.sh\n", "npm run innocent", "npm", {"package.json": CALLED, "x.sh": SCRIPT}),
    Row(".npmrc", '"script-shell" = ./x.sh\n', "npm run innocent", "npm", {"package.json": CALLED, "x.sh": SCRIPT}),
    Row(
        "Cargo.toml",
        f'{CRATE}"bui\\u006cd" = "gen.rs"\n',
        "cargo check --offline",
        "cargo",
        {"gen.rs": 'fn main() { std::fs::write("CANARY", "").unwrap(); }\n', "src/lib.rs": ""},
    ),
    Row(".pnpmfile.cjs", "require('fs').writeFileSync('CANARY', '')\n", "pnpm install --offline", "pnpm"),
    Row("build.rs", 'fn main() { std::fs::write("CANARY", "").unwrap(); }\n', "cargo check --offline", "cargo", CARGO),
    Row(".cargo/config.toml", '[build]\nrustc-wrapper = "./x.sh"\n', "cargo check", "cargo", {**CARGO, "x.sh": SCRIPT}),
    Row(".mvn/jvm.config", "-agentpath:./agent.so\n", "mvn --version", "mvn", {"agent.so": LIBRARY}),
    Row(".git/hooks/pre-commit", SCRIPT, "git -c user.name=t -c user.email=t@t commit --allow-empty -m x", "git"),
    Row(".envrc", "touch CANARY\n", "direnv allow . && direnv exec . true", "direnv"),
    Row("mise.toml", '[hooks]\nenter = "touch CANARY"\n', "mise trust && mise hook-env", "mise"),
    Row("Taskfile.yaml", "version: 3\ntasks:\n  default: touch CANARY\n", "task", "task"),
    Row("composer.json", '{"scripts": {"post-install-cmd": "touch CANARY"}}', "composer install", "composer"),
    Row(".formatter.exs", 'File.touch!("CANARY"); []\n', "mix format", "mix"),
    Row("Directory.Build.props", "<Project/>", "dotnet build", "dotnet"),
)


def build(place: Path, text: str) -> None:
    """Write a file; a library or a compiled module is made of its source."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if text is LIBRARY:
        source = place.with_name("source.c")
        source.write_text(text)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", place, source], check=True)
        source.unlink()
    elif place.suffix == ".pyc":
        source = place.with_name("source.txt")
        source.write_text(text)
        py_compile.compile(str(source), cfile=str(place), doraise=True)
        source.unlink()
    else:
        place.write_text(text)
        place.chmod(0o755)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.path} by {Path(row.tool).name} {len(row.text)}")
def test_n23_a_protected_file_acts_when_an_innocent_command_is_run(tmp_path, row):
    risk = find_file_risk(row.path, b"", row.text.encode())
    assert risk is not None
    assert risk.is_protected
    if shutil.which(row.tool) is None or (row.text is LIBRARY and shutil.which("cc") is None):
        pytest.skip(f"{row.tool} is not installed here")
    project, home = tmp_path / "project", tmp_path / "home"
    home.mkdir()
    subprocess.run(["git", "init", "-q", project], check=True)
    for path, text in (*row.others.items(), (row.path, row.text)):
        build(project / path, text)
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "CARGO_HOME": str(home), "NO_COLOR": "1"}
    own_home = Path(pwd.getpwuid(os.getuid()).pw_dir)  # where toolchains lie
    environment["RUSTUP_HOME"] = os.environ.get("RUSTUP_HOME") or str(own_home / ".rustup")
    done = subprocess.run(
        ["sh", "-c", row.command],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (project / "CANARY").exists(), done.stdout + done.stderr
