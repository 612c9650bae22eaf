"""Every module that can change a file, or start a program that could, is named here with what it may change.

A new one fails until it is named, so that nobody writes to a project by the way. Modules that write to the project are
held function by function; docs/safety.md tells the same list in words.
"""

from __future__ import annotations

import pytest

from tests.contract.effects import words, writing
from tests.contract.source_tree import ROOT, Module, program

# What each module may change. "project" is the one word that lets it near the user's files; see PROJECT.
STATE = "files of the session or of the program, in the state directory (0700/0600)"
LAYERS = "layers of the shadow, in the state directory or in memory"
SCRATCH = "a fresh directory of its own in the temporary directory"
BOX = "the view of one command, inside of its box, and what the box is made of"
STARTS = "nothing itself; starts a program"
KERNEL = "nothing; calls the kernel"
WRITERS: dict[str, str] = {
    "agent_tui": "nothing: /dev/null in place of a closed output",
    "core.agent.collector": STATE,
    "core.agent.command_output": STATE,
    "core.agent.execution": "the cache directory of the workspace, in the state directory",
    "core.agent.prefix": STATE,
    "core.agent.probe_room": LAYERS,
    "core.agent.spill": STATE,
    "core.attachments.pdf": STARTS,
    "core.box_run": STATE,
    "core.demo": "copies of the sample project, in the state directory",
    "core.doctor": SCRATCH,
    "core.engine.children": STATE,
    "core.engine.file_list": STARTS,
    "core.engine.forking": STATE,
    "core.engine.restoring": STATE,
    "core.engine.runtime": STATE,
    "core.engine.privacy": "private sessions: their directory in memory, or below the state directory",
    "core.engine.settings_file": "the user's own config.toml",
    "core.faults": STATE,
    "core.git.short_lived": SCRATCH,
    "core.git.room": "a room of its own in the temporary directory; starts git",
    "core.permissions.audit": STATE,
    "core.permissions.identity": KERNEL,
    "core.permissions.state_file": STATE,
    "core.providers.connection.key_command": "nothing: a command of the user's own configuration that prints a key",
    "core.picture_print": STATE,
    "core.providers.connection.private_file": "pasted keys, and what models can do (cache directory); 0600",
    "core.sandbox.boxed_process": STARTS,
    "core.sandbox.bwrap": BOX,
    "core.sandbox.cgroups": "control groups of this program's own",
    "core.sandbox.copies": "the copy of the project that a command works on, in the state directory",
    "core.sandbox.differences": LAYERS,
    "core.sandbox.fork_server": BOX,
    "core.sandbox.forward": BOX,
    "core.sandbox.kernel": KERNEL,
    "core.sandbox.landlock": KERNEL,
    "core.sandbox.landlocked": BOX,
    "core.sandbox.launcher": BOX,
    "core.sandbox.machine.owning": "owners in layers and in commands' cache, for root in workspaces of others",
    "core.sandbox.masking.layer": LAYERS,
    "core.sandbox.masking.settling": LAYERS,
    "core.sandbox.mounts": BOX,
    "core.sandbox.proxy": "the socket of the proxy, in the state directory",
    "core.sandbox.runner": "project: a command that the user said yes to, where no box is offered (T4)",
    "core.sandbox.seccomp": KERNEL,
    "core.sandbox.self_test": SCRATCH,
    "core.sandbox.supervise": BOX,
    "core.sandbox.tiers": "what the probe of the box found, in the state directory",
    "core.sandbox.unboxed": "project: a command that the user said yes to, where no box is offered (T4)",
    "core.sandbox.view": BOX,
    "core.sandbox.warm_server": STARTS,
    "core.sessions.log": STATE,
    "core.sessions.private": "private sessions: their directory in memory, or below the state directory",
    "core.sessions.snapshot": STATE,
    "core.sessions.store": STATE,
    "core.sessions.summary": STATE,
    "core.shadow.absorb": LAYERS,
    "core.shadow.again": LAYERS,
    "core.shadow.blobs": STATE,
    "core.shadow.bulk_notes": STATE,
    "core.shadow.bulks": LAYERS,
    "core.shadow.checkpoints": "project: directories that a checkpoint did not have, where they are empty by now",
    "core.shadow.delta": LAYERS,
    "core.shadow.frozen": LAYERS,
    "core.shadow.gitstate.beforehand": LAYERS,
    "core.shadow.gitstate.laid": SCRATCH,
    "core.shadow.gitstate.prepared": LAYERS,
    "core.shadow.gitstate.state": LAYERS,
    "core.shadow.journal": STATE,
    "core.shadow.layers": LAYERS,
    "core.shadow.overlay": LAYERS,
    "core.shadow.pending": LAYERS,
    "core.shadow.places": LAYERS,
    "core.shadow.promote": "project: accepted changes, through the journal",
    "core.shadow.sorting": LAYERS,
    "core.shadow.swapping": "project: accepted changes, the one step of a promotion that shows",
    "core.shadow.stack": LAYERS,
    "core.shadow.tidy": LAYERS,
    "core.shadow.transfer": "project: accepted bulks and git state, through the session's note; layers",
    "core.tools.grep": SCRATCH,
    "core.tools.ripgrep": STARTS,
    "core.transports.stdio": KERNEL,
    "core.transports.stdio_client": STARTS,
    "core.workspace.beneath": KERNEL,
    "core.workspace.plan_folder": "project: plan files",
    "core.workspace.removing": "layers, copies and sessions that go; commands' cache",
    "core.workspace.renaming": "project: the renames of a promotion",
    "core.workspace.tree": "project: by whom is told by PROJECT and by who imports it",
    "core.workspace.uppers": "a trial node where layers are to lie",
    "tui.attaching.clipboard": STARTS,
    "tui.screens.actions": "a draft in a temporary directory; starts the user's editor",
}
# The functions that change the user's files, and whose business that is.
PROJECT: dict[str, frozenset[str]] = {
    "core.sandbox.runner": words("_start"),
    "core.sandbox.unboxed": words("Unboxed.start"),
    "core.shadow.checkpoints": words("Checkpoints.restore"),
    "core.shadow.promote": words(
        "Promotion._come_back Promotion._finish Promotion._give_way Promotion._make Promotion._take_back"
    ),
    "core.shadow.swapping": words(
        "Swaps._back_if_other Swaps._exchange_back Swaps._lay_out Swaps._take_out Swaps._take_out_again Swaps.discard "
        "Swaps.swap _keep_owner _move_in"
    ),
    "core.shadow.transfer": words(
        "Transfer._make Transfer._put Transfer._remove Transfer.do Transfer.remove_empty Transfer.save _unlink copy "
        "lay_in room_for"
    ),
    "core.workspace.plan_folder": words("PlanFolder.sweep PlanFolder.write"),
    "core.workspace.renaming": words("move_to_free_name"),
    "core.workspace.tree": words(
        "Workspace._open Workspace.make_directories Workspace.remove_directories Workspace.write_atomic write_new"
    ),
}
# Who may call the methods of a workspace that change it.
CHANGING = {
    "write_atomic": {"core.workspace.plan_folder"},
    "make_directories": {"core.shadow.promote", "core.workspace.tree"},
    "remove_directories": {"core.shadow.promote", "core.shadow.transfer", "core.shadow.checkpoints"},
    "write_new": {"core.shadow.swapping", "core.workspace.tree"},
    "exchange": {"core.shadow.swapping"},
}
SAMPLES = {
    "import os\ndef f(p):\n    os.rename(p, p)": "os.rename",
    "import os\nF = os.O_WRONLY | os.O_CREAT\ndef f(p):\n    os.open(p, F | os.O_EXCL)": "os.open",
    "import os\ndef f(p, flags):\n    os.open(p, flags)": "os.open",
    "def f(p):\n    open(p, 'ab')": "open",
    "def f(p, how):\n    open(p, mode=how)": "open",
    "def f(p):\n    p.open('x')": ".open",
    "def f(p, q):\n    p.replace(q)": ".replace",
    "class A:\n    def f(self, p):\n        p.write_text('')": ".write_text",
    "import shutil\ndef f(p, q):\n    shutil.copy(p, q)": "shutil.copy",
    "import subprocess": "import subprocess",
}
HARMLESS = (
    "import os\nF = os.O_RDONLY | os.O_CLOEXEC\ndef f(p):\n    os.open(p, F)",
    "def f(p):\n    open(p, 'rb')",
    "def f(text):\n    text.replace('a', 'b')",
    "def f(store):\n    store.open('text')",
    "def f(p):\n    p.read_text()",
)


@pytest.mark.parametrize(("source", "what"), SAMPLES.items())
def test_n1_the_search_finds_what_writes(source, what):
    assert {each.what for each in writing(parsed(source))} == {what}


@pytest.mark.parametrize("source", HARMLESS)
def test_n1_the_search_lets_go_what_reads(source):
    assert writing(parsed(source)) == []


def parsed(source: str) -> Module:
    return Module(ROOT / "core" / "sample.py", sample=source)


def test_n1_every_module_that_can_write_is_named_with_what_it_writes():
    found = {module.name: writing(module) for module in program()}
    new = {name: sorted({each.what for each in effects}) for name, effects in found.items() if effects}
    unnamed = {name: what for name, what in new.items() if name not in WRITERS}
    assert unnamed == {}, "name them in WRITERS, with what they may change; docs/safety.md tells of the project's"
    assert set(WRITERS) - set(new) == set(), "these write no more: take them out of WRITERS"


def test_n1_what_writes_to_the_project_is_held_function_by_function():
    near = {name for name, what in WRITERS.items() if what.startswith("project")}
    assert near == set(PROJECT)
    found = {(module.name, each.where) for module in program() if module.name in near for each in writing(module)}
    named = {(name, function) for name, functions in PROJECT.items() for function in functions}
    assert {each for each in found if each[1] != "<module>"} ^ named == set()


@pytest.mark.parametrize("method", CHANGING)
def test_n1_only_these_call_what_changes_a_workspace(method):
    callers = {module.name for module in program() for each in writing(module) if each.what.removeprefix(".") == method}
    assert callers == CHANGING[method]


def test_n1_nothing_of_the_screen_writes_but_a_draft_for_the_editor():
    screen = {name: what for name, what in WRITERS.items() if name.startswith("tui")}
    assert {name for name, what in screen.items() if what != STARTS} == {"tui.screens.actions"}
