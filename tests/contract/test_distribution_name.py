"""On the package index `agent-tui` is another program, and ours is not published yet: no text installs by a name."""

from __future__ import annotations

import re
import subprocess

import pytest

from core import installation
from tests.contract.source_tree import ROOT

_NAME = r"(?<![\w./\\-])agent[-_]tui(?:[-_]ide)?(?:\[[\w,-]+\])?(?:[=<>~!]=[\w.]+)?(?![\w./\\-])"
_TOOL = r"\b(?:pip3?|pipx|uv|poetry|pdm|conda|mamba|rye|hatch)\b"
_VERB = r"(?<!un)\b(?:install|upgrade|add|inject|run|sync)\b"
BY_NAME = re.compile(
    rf"{_TOOL}[^\n`]*?{_VERB}[^\n`;|&]*?{_NAME}|\buvx\b[^\n`;|&]*?{_NAME}|--(?:with|from|spec)[= ][\"']?{_NAME}"
)
SELF = "tests/contract/test_distribution_name.py"
HISTORY = "CHANGELOG.md"


def list_texts() -> list[tuple[str, str]]:
    """Every text that is kept in the repository, by its path."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    texts = []
    for path in filter(None, listed.split("\0")):
        if path not in {SELF, HISTORY} and (ROOT / path).is_file():
            try:
                texts.append((path, (ROOT / path).read_text("utf-8")))
            except UnicodeDecodeError:
                continue
    return texts


def test_n39_no_text_installs_the_program_by_its_name():
    mentions = {f"{path}: {match[0]}" for path, text in list_texts() for match in BY_NAME.finditer(text)}
    assert mentions == set()


@pytest.mark.parametrize(
    "text",
    [
        *("pip install agent-tui", "pipx install agent-tui", "pipx install 'agent-tui[team]'", "uvx agent-tui"),
        *(
            "pipx install agent-tui-ide",
            "uv tool install agent-tui",
            "uv tool upgrade agent-tui",
            "pip install -U agent-tui",
            "poetry add agent-tui",
        ),
        *("python -m pip install --upgrade agent_tui", "uv run --with agent-tui x", "pipx run agent-tui"),
        *("uvx --from agent-tui agent-tui", "pip install agent-tui==1.0", 'pip install "agent-tui[minilm]"'),
    ],
)
def test_n39_each_way_to_install_by_a_name_is_noticed(text):
    assert BY_NAME.search(text)


@pytest.mark.parametrize(
    "text",
    [
        *("pipx install .", "pipx uninstall agent-tui-ide", "pip install ./dist/agent_tui-0.1.0-py3-none-any.whl"),
        *("uv tool install /src/agent-tui", "pip install -e '/src/agent-tui[team]'", "agent-tui doctor"),
    ],
)
def test_n39_a_checkout_and_a_wheel_are_none(text):
    assert not BY_NAME.search(text)


@pytest.mark.parametrize(
    ("prefix", "begin"),
    [
        ("/home/x/.local/pipx/venvs/agent-tui", "pipx install --force '"),
        ("/home/x/.local/share/uv/tools/agent-tui", "uv tool install --force '"),
        ("/home/x/venv", f"{installation.sys.executable} -m pip install --upgrade '"),
    ],
)
@pytest.mark.parametrize("source", ["/src/agent tui", "/dist/agent_tui-0.1.0-py3-none-any.whl", installation.UNKNOWN])
def test_n39_hints_name_what_this_installation_was_made_from(monkeypatch, tmp_path, prefix, begin, source):
    monkeypatch.setattr(installation, "__file__", str(tmp_path / "site-packages" / "core" / "installation.py"))
    monkeypatch.setattr(installation.sys, "prefix", prefix)
    monkeypatch.setattr(installation, "_find_source", lambda: source)
    assert installation.describe_extra("team") == f"{begin}{source}[team]'"
    assert installation.describe_update().startswith(f"{begin}{source}' (to remove it: ")
    assert not BY_NAME.search(installation.describe_extra("team"))


def test_n39_a_checkout_is_updated_by_git_and_extended_where_it_is(monkeypatch, tmp_path):
    (tmp_path / ".git").mkdir()
    monkeypatch.setattr(installation, "__file__", str(tmp_path / "core" / "installation.py"))
    assert installation.describe_update() == f"git pull in {tmp_path}, then make run"
    assert f"-e '{tmp_path}[minilm]'" in installation.describe_extra("minilm")
