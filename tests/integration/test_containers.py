"""In a container: the main job without a screen, as root and as a user, in each way that it offers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from core.exits import ExitCode
from tests.support import dockerlike
from tests.support.program import ROOT

pytestmark = pytest.mark.skipif(
    not dockerlike.is_possible(), reason="only root of Linux on x86_64 can play a container"
)
USER = 1000
CHECK = "python3 test_tax.py"
WAYS = {
    "T3": ("--allow", "Shell(*)"),
    "container": ("--sandbox", "container", "--i-know"),
    "in-place": ("--in-place", "--i-know"),
}
FILES = {
    "tax.py": "def add(a, b):\n    return a - b\n",
    "test_tax.py": "from tax import add\nassert add(1, 2) == 3, add(1, 2)\nprint('1 passed')\n",
    ".gitignore": "__pycache__/\n",
}


def run_command(command: str) -> dict[str, Any]:
    return {"name": "run_terminal_cmd", "arguments": {"command": command}}


MAIN_JOB = [
    {"tool_calls": [{"name": "read_file", "arguments": {"target_file": "tax.py"}}]},
    {"tool_calls": [run_command(CHECK)]},
    {
        "tool_calls": [
            {
                "name": "search_replace",
                "arguments": {"file_path": "tax.py", "old_string": "a - b", "new_string": "a + b"},
            }
        ]
    },
    {"tool_calls": [run_command(CHECK)]},
    {"tool_calls": [run_command("for i in 1 2; do echo $i >> log.txt; done; cat > n.txt <<'X'\nhi\nX\nid -u")]},
    "Done.",
]


class Container:
    """A project in a directory that the user of the container owns. `user`: 0 for root."""

    def __init__(self, place: Path, user: int) -> None:
        self.user, self.place = user, place
        self.project = place / "shop"
        self.project.mkdir()
        for name, text in FILES.items():
            (self.project / name).write_text(text)
        self.git("init", "-q")
        self.git("add", ".")
        self.git("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "begin")
        for path in (place, *place.rglob("*")):
            os.chown(path, user, user)

    def git(self, *words: str) -> str:
        command = ["git", "-c", "safe.directory=*", *words]
        return subprocess.run(command, cwd=self.project, capture_output=True, text=True, check=True).stdout

    def run(self, steps: list[Any], *words: str, env: Mapping[str, str] = {}) -> subprocess.CompletedProcess[str]:
        script = self.place / "script.yaml"
        script.write_text(json.dumps({"turns": [{"steps": steps}]}))
        script.chmod(0o644)
        variables = {
            "PATH": os.environ["PATH"] if not self.user else os.defpath,
            "HOME": str(self.place),
            "AGENT_TUI_STATE_DIR": str(self.place / "state"),
            "PYTHONPATH": f"{ROOT}{os.pathsep}{sysconfig.get_path('purelib')}",
        }
        as_user = ("--uid", str(self.user)) if self.user else ()
        return subprocess.run(
            [
                *(sys.executable, dockerlike.__file__, *as_user),
                *(find_python(self.user), str(ROOT / "agent_tui.py")),
                *("-p", "Mend it", "--model", f"scripted/{script}", "--output-format", "json", *words),
            ],
            cwd=self.project,
            env=variables | env,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )


def find_python(user: int) -> str:
    """The interpreter of the tests, or one of the same version that everybody may run. Skips if there is none."""
    if not user:
        return sys.executable
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    # It has to start itself: setpriv starts the first program with root's access to files.
    probe = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', 'import core']))"
    environment = {"PYTHONPATH": f"{ROOT}{os.pathsep}{sysconfig.get_path('purelib')}"}
    for candidate in (sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        command = ("setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups", candidate, "-c", probe)
        if subprocess.run(command, env=environment, capture_output=True, check=False, cwd="/").returncode == 0:
            return candidate
    pytest.skip(f"an ordinary user can't run {version} and this checkout here")


@pytest.fixture(params=[0, USER], ids=["root", "user"])
def container(request) -> Iterator[Container]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:  # pytest's own directories are root's alone
        yield Container(Path(directory), request.param)


def list_results(ended: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    documents = json.loads(ended.stdout)["documents"]
    return [document["metadata"] for document in documents if document["type"] == "terminal_command"]


@pytest.mark.parametrize("way", WAYS)
def test_the_main_job_is_done_without_a_screen(container, way):
    ended = container.run(MAIN_JOB, "--accept", "all", *WAYS[way])
    assert ended.returncode == ExitCode.DONE, ended.stderr + ended.stdout
    assert [result["exitCode"] for result in list_results(ended)] == [1, 0, 0], ended.stdout
    assert (container.project / "tax.py").read_text() == FILES["tax.py"].replace("a - b", "a + b")
    assert (container.project / "log.txt").read_text() == "1\n2\n"
    assert {path.stat().st_uid for path in container.project.iterdir()} == {container.user}
    written = json.loads(ended.stdout)["metadata"]["acceptedChanges"]
    assert written == ["log.txt", "n.txt", "tax.py"]


@pytest.mark.parametrize("way", ["T3", "container"])
def test_the_files_of_the_user_stay_until_they_accept(container, way):
    ended = container.run([{"tool_calls": [run_command("rm -rf ./* .git; ls -A; echo x > new")]}, "Done."], *WAYS[way])
    assert [result["exitCode"] for result in list_results(ended)] == [0], ended.stderr
    assert {path.name for path in container.project.iterdir()} == {*FILES, ".git"}
    assert container.git("status", "--porcelain") == ""
    pending = {change["path"] for change in json.loads(ended.stdout)["metadata"]["pendingChanges"]}
    assert {"new", "tax.py", "test_tax.py"} <= pending


@pytest.mark.parametrize("way", ["container", "in-place"])
def test_what_a_command_leaves_running_is_there_for_the_next_one_with_later_edits(container, way):
    port = 20_000 + os.getpid() % 20_000
    ask = (
        f"python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:{port}/tax.py\").read().decode())'"
    )
    waiting = f"for i in $(seq 100); do {ask} >/dev/null 2>&1 && break; sleep 0.1; done"
    steps = [
        {"tool_calls": [run_command(f"python3 -m http.server {port} --bind 127.0.0.1 & echo $! > pid; {waiting}")]},
        MAIN_JOB[2],
        {"tool_calls": [run_command(f"{ask} | grep 'a + b'")]},
        "Done.",
    ]
    ended = container.run(steps, "--accept", "all", *WAYS[way])
    server = int((container.project / "pid").read_text())
    try:
        assert [result["exitCode"] for result in list_results(ended)] == [0, 0], ended.stdout + ended.stderr
        assert is_running(server) is (way == "in-place")
    finally:
        if is_running(server):
            os.kill(server, signal.SIGKILL)


def is_running(pid: int) -> bool:
    try:
        return "http.server" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


def test_a_machine_that_looks_like_a_computer_is_refused_unless_it_is_said(container):
    if (
        any(map(os.path.exists, ("/.dockerenv", "/run/.containerenv")))
        or "docker" in Path("/proc/1/cgroup").read_text()
    ):
        pytest.skip("this machine looks like a container")
    ended = container.run(["Done."], "--sandbox", "container")
    assert ended.returncode == ExitCode.USAGE
    assert "--i-know" in ended.stderr


@pytest.mark.parametrize("choice", ["container", "in-place", "docker"])
def test_the_environment_chooses_it_for_programs_that_start_this_one(container, choice):
    steps = [{"tool_calls": [run_command("echo x > new; printenv SECRET_OF_MINE")]}, "Done."]
    ended = container.run(steps, env={"AGENT_TUI_SANDBOX": choice, "CI": "true", "SECRET_OF_MINE": "seen"})
    if choice == "docker":
        assert ended.returncode == ExitCode.FAILED
        assert "AGENT_TUI_SANDBOX is 'docker'" in ended.stdout
        return
    assert [result["exitCode"] for result in list_results(ended)] == [0], ended.stderr
    assert (container.project / "new").exists() is (choice == "in-place")


def test_the_command_dialect_of_mini_swe_agent_works_in_place(container):
    script = container.place / "script.yaml"
    config = container.place / ".config" / "agent-tui" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[models."scripted/{script}"]\ndialect = "command"\n')
    for path in (config, *config.parents[:2]):
        os.chown(path, container.user, container.user)
    steps = [
        "THOUGHT: I mend it.\n\n```bash\nsed -i 's/a - b/a + b/' tax.py && python3 test_tax.py\n```",
        "THOUGHT: Done.\n\n```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```",
    ]
    ended = container.run(steps, *WAYS["in-place"])
    assert [result["exitCode"] for result in list_results(ended)][:1] == [0], ended.stdout + ended.stderr
    assert "a + b" in (container.project / "tax.py").read_text()


def test_no_key_of_a_model_reaches_a_command(container):
    key = "sk-test-0123456789abcdef0123456789"
    steps = [{"tool_calls": [run_command("env; cat /proc/self/environ | tr '\\0' '\\n'")]}, "Done."]
    for way in ("container", "in-place"):
        ended = container.run(steps, *WAYS[way], env={"OPENAI_API_KEY": key, "MY_OWN": "shown"})
        assert list_results(ended)[0]["exitCode"] == 0, ended.stderr
        assert key not in ended.stdout
        assert "MY_OWN=shown" in ended.stdout
