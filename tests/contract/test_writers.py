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
SOCKETS = "sockets of open sessions, in the runtime directory, the state directory or one of the user's own in /tmp"
KERNEL = "nothing; calls the kernel"
INDEX = "the index of the project, in the state directory"
READS = "nothing: it reads the index"
WRITERS: dict[str, str] = {
    "agent_tui": "nothing: /dev/null in place of a closed output",
    "core.cli.streams": "nothing: /dev/null in place of a stream that is closed",
    "core.search_paths": "nothing: starts this program again, without what led into a project",
    "core.shell.log_collector": STATE,
    "core.agent.context.prefix": STATE,
    "core.shell.probe_overlay": LAYERS,
    "core.hooks.runner": LAYERS,
    "core.shell.server_process": LAYERS,
    "core.cli.config": "the user's config.toml, as they left it in their editor",
    "core.cli.report": "the file that the user names for the report",
    "core.mcp.config_files": "the file that names servers, when the user adds one or removes it",
    "core.mcp.login_flow": "nothing: opens the user's browser",
    "core.mcp.logins": "locks in the state directory",
    "core.mcp.package_servers": "packages of servers, after a yes, in the cache directory",
    "core.mcp.tool_lists": "the lists of servers' tools, in the cache directory",
    "core.shell.long_output": STATE,
    "core.shell.command_host": "the state directory: the temporary files of commands, which it removes",
    "core.shell.own_programs": "the cache directory: a link to our search program, and the start of apply_patch",
    "core.shell.patch_program": "what the command that runs it may change",
    "core.shell.verification.clean_layer": f"{LAYERS}, which are dropped",
    "core.proof.inside.agent_tui_recorder": "the record of the run that it is in, in the state directory",
    "core.proof.runs.records": STATE,
    "core.shell.verification.disk_digest": "nothing: reads the files of the project",
    "core.attachments.preparation": STARTS,
    "core.web.pages": STARTS,
    "core.cli.box": STATE,
    "core.demo": "copies of the sample project, in the state directory",
    "core.cli.doctor": SCRATCH,
    "core.engine.commits.making": "index and message in a temporary directory; starts the user's git commit",
    "core.engine.commits.pull_request": "a text in a temporary directory; starts git push, gh, glab",
    "core.engine.hosted.agent_process": "copies in the state directory; tokens in the user's own directories",
    "core.engine.subagents.sessions": STATE,
    "core.engine.shared.project_files": STARTS,
    "core.engine.session.opening": STATE,
    "core.engine.session.restore": STATE,
    "core.engine.session.session": STATE,
    "core.engine.privacy": "private sessions: their directory in memory, or below the state directory",
    "core.engine.configuration.guide_file": "what was seen of tour and hints, in the state directory",
    "core.engine.configuration.settings_file": "the user's own config.toml",
    "core.crash_reports": STATE,
    "core.git.temporary_directories": SCRATCH,
    "core.background.repositories": "a clone of its own in the state directory; starts git",
    "core.background.session_archive": STATE,
    "core.filesystem.file_dates": "project: the date of an accepted file; that of a pending one in the state directory",
    "core.filesystem.file_attributes": "project: attributes and access list of an accepted file; the cache",
    "core.git.tree_entries": SCRATCH,
    "core.git.tree_writer": "objects in the directory that its caller made, below the temporary one",
    "core.cli.print_mode.shown_arguments": "the arguments in the memory of this process",
    "core.background.sqlite_store": STATE,
    "core.background.postgres_store": "tables of its own in the database that the user names",
    "core.background.control": f"{LAYERS}; a lock and a log in the state directory; starts this program again",
    "core.worker": "commits in the clone of an agent, in the state directory; starts git",
    "core.git.index_lock": "project: the index of its repository and its lock, for a commit",
    "core.shadow.commits.pending_commit": STATE,
    "core.git.repository": "a room of its own in the temporary directory; starts git",
    "core.permissions.audit": STATE,
    "core.permissions.trust": KERNEL,
    "core.permissions.state_file": STATE,
    "core.providers.connection.keys": "nothing: a command of the user's own configuration that prints a key",
    "core.cli.image": STATE,
    "core.cli.agents": "nothing itself; becomes the screen",
    "core.cli.serve": "its own file of tokens, at its end",
    "core.transports.http.server": "the socket that the user names",
    "core.transports.http.terminal": "nothing itself; starts this program, on a session that is open",
    "core.transports.http.access": "the file of tokens: in the state directory, or where the user says; 0600",
    "core.filesystem.private_files": f"{STATE}; pasted keys, and what models can do (cache directory); 0600",
    "core.sandbox.output": STARTS,
    "core.sandbox.tiers.boxed_process": STARTS,
    "core.sandbox.tiers.bwrap": BOX,
    "core.sandbox.inside.processes": "control groups of this program",
    "core.sandbox.tiers.project_copy": "a command's copy of the project, and the layer of its changes",
    "core.sandbox.tiers.session_copy": "the session's copies of the project, in the state directory",
    "core.sandbox.tiers.clone_files": "files of a copy of the project, and of the layer of a command's changes",
    "core.sandbox.tiers.seatbelt_box": f"{STARTS}; their scratch directories, in the state directory",
    "core.sandbox.inside.fork_server": BOX,
    "core.sandbox.inside.port_forward": BOX,
    "core.sandbox.inside.directory_renames": BOX,
    "core.sandbox.inside.live_edits": BOX,
    "core.sandbox.network": STARTS,
    "core.shell.live_view": LAYERS,
    "core.shell.session_network": "nothing: its sockets are of the loopback",
    "core.sandbox.inside.kernel": KERNEL,
    "core.sandbox.tiers.landlock_box": BOX,
    "core.sandbox.inside.supervisor": BOX,
    "core.sandbox.tiers.dropped_changes": LAYERS,
    "core.sandbox.inside.mounts": BOX,
    "core.sandbox.proxy": "the socket of the proxy, in the state directory",
    "core.sandbox.unboxed_run": "project: a command that the user said yes to, where no box is offered (T4)",
    "core.sandbox.inside.seccomp": KERNEL,
    "core.sandbox.tiers.self_test": SCRATCH,
    "core.sandbox.inside.init_process": BOX,
    "core.sandbox.tiers.selection": "what the probe of the box found, in the state directory",
    "core.sandbox.inside.root_filesystem": BOX,
    "core.sandbox.inside.python_driver": BOX,
    "core.sandbox.inside.program_driver": BOX,
    "core.sandbox.tiers.namespaces": STARTS,
    "core.engine.export.documents": "project: an export, a new file that the user names, or the one of --trajectory",
    "core.engine.session.closed_sessions": STATE,
    "core.sessions.transcript_search": "the words of transcripts, in the state directory",
    "core.sessions.log": STATE,
    "core.sessions.private_directory": "private sessions: their directory in memory, or below the state directory",
    "core.sessions.snapshot": STATE,
    "core.sessions.store": STATE,
    "core.sessions.listing": STATE,
    "core.shadow.absorber": LAYERS,
    "core.shadow.commits.patch_text": SCRATCH,
    "core.shadow.content.blob_store": STATE,
    "core.shadow.bulk.bulk_records": f"{STATE}; {LAYERS}",
    "core.shadow.bulk.bulk_verdicts": LAYERS,
    "core.shadow.file_checkpoints": (
        "project: directories that a checkpoint did not have, where they are empty by now"
    ),
    "core.shadow.layers.layer_delta": LAYERS,
    "core.shadow.bulk.git_preparation": LAYERS,
    "core.shadow.gitstate.repository_copy": SCRATCH,
    "core.shadow.gitstate.accepted_content": SCRATCH,
    "core.shadow.gitstate.git_layer": LAYERS,
    "core.shadow.gitstate.git_state": LAYERS,
    "core.shadow.promotion.journal": STATE,
    "core.shadow.layers.layer_files": "project: accepted bulks, copied on behalf of core.shadow.bulk; layers",
    "core.shadow.layers.layer_store": LAYERS,
    "core.shadow.layers.overlayfs": LAYERS,
    "core.shadow.promotion.promotion": "project: accepted changes, through the journal",
    "core.shadow.layer_sorting": LAYERS,
    "core.shadow.promotion.file_swap": "project: accepted changes, the one step of a promotion that shows",
    "core.shadow.layers.layer_stack": LAYERS,
    "core.shadow.layers.prune": LAYERS,
    "core.shadow.layers.pending_layer": LAYERS,
    "core.shadow.bulk.layer_transfer": "project: accepted bulks and git state, through the session's note; layers",
    "core.tools.builtin.reading.grep": SCRATCH,
    "core.tools.builtin.reading.ripgrep": STARTS,
    "core.transports.stdio_server": KERNEL,
    "core.transports.stdio_client": STARTS,
    "core.transports.engine_host": SOCKETS,
    "core.transports.session_sockets": SOCKETS,
    "core.filesystem.atomic_write": "project: files and renames of plans and promotions; the program's state",
    "core.filesystem.open_beneath": KERNEL,
    "core.workspace.plan_folder": "project: plan files, also in the directory that the user names for them",
    "core.filesystem.removal": "layers, copies and sessions that go; commands' cache",
    "core.workspace.tree": "project: by whom is told by PROJECT and by who imports it",
    "core.filesystem.overlay_support": f"{LAYERS}; a trial node where they are to lie",
    "core.cli.index": INDEX,
    "core.engine.shared.project_index": STARTS,
    "core.engine.shared.project_search": READS,
    "core.engine.shared.remote_embeddings": f"{INDEX}; starts the model",
    "core.index.builder": f"{INDEX}; starts chunkers",
    "core.index.database": INDEX,
    "core.index.file_rows": "nothing: reads the files of the project",
    "core.index.reader": READS,
    "core.index.repo_map": READS,
    "core.index.search.index_search": READS,
    "core.index.search.symbol_search": READS,
    "core.index.search.vectors": READS,
    "core.index.writer": INDEX,
    "tui.clipboard": STARTS,
    "tui.terminal.capabilities": STARTS,
    "tui.terminal.copying": STARTS,
    "tui.screens.controllers.attention": STARTS,
    "tui.files.editors": "a copy of a pending file in a temporary directory, for the user's editor",
    "tui.screens.controllers.editor": "a draft in a temporary directory; starts the user's editor",
}
# The functions that change the user's files, and whose business that is.
PROJECT: dict[str, frozenset[str]] = {
    "core.sandbox.unboxed_run": words("UnboxedProcess.start"),
    "core.shadow.file_checkpoints": words("FileCheckpoints.restore"),
    "core.shadow.promotion.promotion": words(
        "Promotion._restore_emptied Promotion._finish Promotion._clear_destination "
        "Promotion._make_directories Promotion._roll_back"
    ),
    "core.shadow.promotion.file_swap": words(
        "FileSwaps._undo_exchange FileSwaps._exchange_back FileSwaps.write_content FileSwaps._remove_target "
        "FileSwaps._remove_written FileSwaps.discard FileSwaps.swap _move_to_target"
    ),
    "core.filesystem.file_dates": words("FileDates.separate"),
    "core.filesystem.file_attributes": words(
        "_make_plain _open_file _strip_file copy_attributes copy_owner strip_privileges"
    ),
    "core.shadow.bulk.layer_transfer": words(
        "LayerTransfer._make_directory LayerTransfer._put LayerTransfer._remove LayerTransfer.run "
        "LayerTransfer.remove_empty LayerTransfer.save _unlink"
    ),
    "core.shadow.layers.layer_files": words(
        "_copy_tree _link_at _restore_metadata copy_file copy_into_layer make_parent_directories"
    ),
    "core.engine.export.documents": words("write_export"),
    "core.git.index_lock": words("_link_lock _unlink install_draft take_lock"),
    "core.workspace.plan_folder": words(
        "PlanFolder.remove PlanFolder.remove_abandoned PlanFolder.write _make_directory"
    ),
    "core.filesystem.atomic_write": words("create_file move_to_free_name rename_over replace_file stream_replacement"),
    "core.workspace.tree": words(
        "Workspace._open Workspace.make_directories Workspace.remove_directories Workspace.write_atomic"
    ),
}
# Who may call the methods of a workspace that change it.
CHANGING = {
    "write_atomic": {"core.workspace.plan_folder"},
    "make_directories": {"core.shadow.promotion.promotion", "core.workspace.tree"},
    "remove_directories": {
        "core.shadow.promotion.promotion",
        "core.shadow.bulk.layer_transfer",
        "core.shadow.file_checkpoints",
    },
    "create_file": {
        "core.background.session_archive",  # below the state directory
        "core.filesystem.atomic_write",
        "core.git.index_lock",
        "core.shadow.layers.layer_files",
        "core.shadow.promotion.file_swap",
        "core.workspace.tree",
    },
    "exchange_names": {"core.shadow.promotion.file_swap"},
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
    assert {effect.what for effect in writing(parsed(source))} == {what}


@pytest.mark.parametrize("source", HARMLESS)
def test_n1_the_search_lets_go_what_reads(source):
    assert writing(parsed(source)) == ()


def parsed(source: str) -> Module:
    return Module(ROOT / "core" / "sample.py", sample=source)


def test_n1_every_module_that_can_write_is_named_with_what_it_writes():
    effects_by_module = {module.name: writing(module) for module in program()}
    new = {name: sorted({effect.what for effect in effects}) for name, effects in effects_by_module.items() if effects}
    unnamed = {name: what for name, what in new.items() if name not in WRITERS}
    assert unnamed == {}, "name them in WRITERS, with what they may change; docs/safety.md tells of the project's"
    assert set(WRITERS) - set(new) == set(), "these write no more: take them out of WRITERS"


def test_n1_what_writes_to_the_project_is_held_function_by_function():
    near = {name for name, what in WRITERS.items() if what.startswith("project")}
    assert near == set(PROJECT)
    writing_functions = {
        (module.name, effect.where) for module in program() if module.name in near for effect in writing(module)
    }
    listed_functions = {(name, function) for name, functions in PROJECT.items() for function in functions}
    assert {entry for entry in writing_functions if entry[1] != "<module>"} ^ listed_functions == set()


@pytest.mark.parametrize("method", CHANGING)
def test_n1_only_these_call_what_changes_a_workspace(method):
    callers = {
        module.name for module in program() for effect in writing(module) if effect.what.removeprefix(".") == method
    }
    assert callers == CHANGING[method]


def test_n1_nothing_of_the_screen_writes_but_a_draft_for_the_editor():
    screen = {name: what for name, what in WRITERS.items() if name.startswith("tui")}
    assert {name for name, what in screen.items() if what != STARTS} == {
        "tui.files.editors",
        "tui.screens.controllers.editor",
    }
