"""What the program does not have, so that nothing of it has to be guarded: the day it gets it, these fail."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from core.agent.gate.capabilities import CapabilityFactory
from core.arguments import Front
from core.tools.toolset import Toolset
from tests.contract.source_tree import Module, imports, program

TOOLS = Toolset()

# What waits for somebody to connect, and for whom.
LISTENERS = {
    "core.shell.log_collector": "programs with probes, on loopback, while one runs; with a token",
    "core.shell.session_network": "programs of this user, on loopback, at a port of a command that they have opened",
    "core.mcp.login_flow": "the user's browser, on loopback, while a login goes on; with a state",
    "core.transports.engine_host": "screens of this user, by a socket for each session that is open",
    "core.sandbox.proxy": "one box, by a socket in the state directory",
    "core.sandbox.inside.port_forward": "programs inside of a box, on its own loopback",
    "core.transports.http.port_gates": "who has a cookie of `agent-tui serve --web`, for ports that the user opened",
    "core.transports.http.server": "who holds a token, when the user starts `agent-tui serve`",
    "core.sandbox.tiers.self_test": "nobody: what the attempts of a box must not reach",
}
# `listen` of our own, where no socket is: to standard input, a project's words, what `forward` opened, a server's news.
LISTENING_TO_OURS = {
    "core.engine.engine",
    "core.sandbox.inside.network_process",
    "core.sandbox.inside.init_process",
    "core.transports.stdio_server",
    "core.transports.engine_host",
    "core.mcp.wire.sdk_connection",
}
BY_HTTP = "core.transports.http."
SERVERS = frozenset({"http.server", "socketserver", "wsgiref", "xmlrpc", "aiohttp", "uvicorn", "litestar", "starlette"})
CLIENTS_OF_THE_SCREEN = frozenset({"http", "urllib", "httpx", "requests", "aiohttp", "socket", "openai", "anthropic"})
LISTENING = frozenset({"start_server", "start_unix_server", "create_server", "create_unix_server", "listen"})


def called(module: Module) -> Iterator[ast.Call]:
    return (node for node in module.nodes if isinstance(node, ast.Call))


def name_of(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def texts(module: Module) -> set[str]:
    return {node.value for node in module.nodes if isinstance(node, ast.Constant) and type(node.value) is str}


def test_nothing_listens_but_what_is_named():
    listening_names = {module.name for module in program() for call in called(module) if name_of(call) in LISTENING}
    assert listening_names - LISTENING_TO_OURS <= set(LISTENERS)
    serving = {
        (module.name, statement.target.partition(".")[0]) for module in program() for statement in imports(module)
    }
    assert {name for name, target in serving if target in SERVERS and not name.startswith(BY_HTTP)} == set()


def test_i3_servers_of_mcp_are_started_by_one_package_and_reached_by_the_capability_of_one_access():
    taken = {(module.name, statement.target.partition(".")[0]) for module in program() for statement in imports(module)}
    speaking = {name for name, target in taken if target == "mcp"}
    serving = {"core.transports.mcp.sdk_server"}  # is a server, and starts none
    assert speaking - serving == {"core.mcp.wire.sdk_connection", "core.mcp.login_flow"}
    users = {
        module.name for module in program() for statement in imports(module) if statement.target.startswith("core.mcp")
    }
    assert {name for name in users if not name.startswith("core.mcp")} <= {
        "core.engine.shared.project_trust",  # which entries a file has, so that a change of one is asked about
        "core.engine.configuration.foreign_files",  # which servers of other agents are used
        "core.engine.configuration.settings_lint",  # which entries are wrong
        "core.cli.doctor",  # whether there is a browser
        "core.cli.mcp",  # what the user does with them
        "core.cli.clean",  # where their packages are
        "core.engine.session.server_access",
        "core.engine.subagents.browser",
        "core.engine.turns.agent_types",
        "core.engine.turns.server_prompts",
        "core.engine.session.session",
        "core.engine.turns.lifecycle",
        "core.agent.gate.gate",
    }
    assert CapabilityFactory.__module__ == "core.agent.gate.capabilities"


def test_sessions_are_not_exported():
    assert not [name for name in Front.__args__ if "export" in name or "share" in name]


def test_no_work_of_the_screen_is_begun_that_nobody_may_await():
    module_names = [
        module.name
        for module in program()
        for call in called(module)
        if name_of(call) == "run_worker" and not any(keyword.arg == "thread" for keyword in call.keywords)
    ]
    assert module_names == ["tui.workers"]


def test_i9_the_screen_fetches_nothing():
    screen = [module for module in program() if module.name.partition(".")[0] == "tui"]
    targets = {statement.target for module in screen for statement in imports(module)}
    reached = {
        target.partition(".")[0] for target in targets if not target.startswith("urllib.parse")
    }  # takes addresses apart
    assert reached & CLIENTS_OF_THE_SCREEN == set()


def test_t9_the_clipboard_is_written_where_the_user_copies_and_nowhere_else():
    callers = {
        name: {module.name for module in program() for call in called(module) if name_of(call) == name}
        for name in ("copy_to_clipboard", "copy_text", "format_clipboard")
    }
    copying = "tui.screens.controllers.copying"
    assert callers["copy_to_clipboard"] == {"tui.screens.controllers.sessions", copying}
    assert callers["copy_text"] == {copying, "tui.chat.transcript"}  # of a block's text, which it hands on
    assert callers["format_clipboard"] == {"tui.terminal.copying"}


def test_no_setting_and_no_code_turns_the_check_of_certificates_off():
    overrides = {
        (module.name, ast.unparse(word.value))
        for module in program()
        for call in called(module)
        for word in call.keywords
        if word.arg in {"verify", "verify_ssl", "check_hostname", "cert_reqs"} and "http" in ast.unparse(call).lower()
    }
    assert overrides == {("core.providers.connection.endpoint", "not plain")}  # plain: http to this machine


def test_d8_no_duration_is_taken_from_the_clock_on_the_wall():
    timed = {
        module.name
        for module in program()
        for node in module.nodes
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)
        if any(isinstance(side, ast.Call) and ast.unparse(side.func) in {"time.time", "now_ms"} for side in pair(node))
    }
    assert timed <= AGES, "ages of what was written down may be told by the wall; nothing else"


# How old a kept finding or picture is, what endpoints told of models among them, or a turn of the log, and a date that
# a server names.
AGES = frozenset(
    {
        "core.sandbox.tiers.selection",
        "core.providers.catalog.reported",
        "core.providers.connection.refusals",
        "core.cli.image",
        "core.agent.turn.prompt_setup",
        "core.cli.clean",
        "core.cli.agents",
    }
)


def pair(node: ast.BinOp) -> tuple[ast.expr, ast.expr]:
    return node.left, node.right


def test_k7_no_key_is_an_argument_of_a_program():
    starting = {"create_subprocess_exec", "run", "Popen", "execv", "execve", "posix_spawn"}
    revealing = [
        (module.name, ast.unparse(call))
        for module in program()
        for call in called(module)
        if name_of(call) in starting and "reveal" in ast.unparse(call)
    ]
    assert revealing == []
