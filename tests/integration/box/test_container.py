"""A container: the root file system is an overlay, and no overlay takes its layers from there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from core.filesystem.overlay_support import SHARED_MEMORY
from tests.support.box_cases import ROOT
from tests.unit.shadow.overlay_mount import needs_mounts

pytestmark = needs_mounts
MOUNT = 'cd "$1" && mkdir -p lower/project upper work all && echo one > lower/project/a && '
MOUNT += "mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work,userxattr overlay all && cd all/project && "
RUN = 'shift && exec "$@"'


def contained(place: Path, command: str) -> subprocess.CompletedProcess[str]:
    """`agent-tui box run` where the project, the state and everything else of the user's lie on an overlay."""
    program = [sys.executable, str(ROOT / "agent_tui.py"), "box", "run", ".", command]
    everything = place / "all"
    env = {
        **os.environ,
        "HOME": str(everything),
        "AGENT_TUI_STATE_DIR": str(everything / "state"),
        "AGENT_TUI_CONFIG_DIR": str(everything / "config"),
    }
    shell = ["unshare", "-Urm", "sh", "-ec", MOUNT + RUN, "sh", str(place), *program]
    return subprocess.run(shell, env=env, check=False, capture_output=True, text=True, timeout=60)


def test_layers_lie_in_memory_where_the_state_can_not_hold_them(tmp_path):
    done = contained(tmp_path, f"cat a; echo two > a; mkdir node_modules; echo x > node_modules/{tmp_path.name}")
    assert (done.stdout, done.returncode) == ("one\n", 0), done.stderr
    assert done.stderr.split()[:2] == ["sandbox", "T1"]
    assert "edited     a" in done.stderr
    assert (tmp_path / "lower" / "project" / "a").read_text() == "one\n"
    assert not (tmp_path / "upper" / "project").exists()
    assert not list(SHARED_MEMORY.glob(f"agent-tui-*/*/upper/node_modules/{tmp_path.name}"))
