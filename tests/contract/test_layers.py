"""Imports point down one ladder: the architecture, as a test."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
from functools import cache

from tests.contract.source_tree import Import, imports, modules, program, project

# Lowest first. A module may import from lower rungs and from its own, except where its rung is in STRANGERS.
LADDER: tuple[frozenset[str], ...] = (
    frozenset(
        "core" + name
        for name in (
            "",
            ".arguments",
            ".errors",
            ".ids",
            ".clock",
            ".exits",
            ".languages",
            ".modes",
            ".filesystem",
            ".protocol",
            ".patterns",
            ".processes",
            ".records",
            ".search_paths",
            ".secrets",
            ".tasks",
            ".text",
            ".installation",
            ".user_dirs",
        )
    ),
    frozenset(
        {
            "core.attachments",
            "core.state",
            "core.syntax",
            "core.edit_formats",
            "core.extensions",
            "core.config",
            "core.crash_reports",
            "core.git",
            "core.notebooks",
            "core.workspace",
            "core.permissions",
        }
    ),
    frozenset(
        "core." + name
        for name in (
            "shadow",
            "edits",
            "plans",
            "debug",
            "sessions",
            "index",
            "providers",
            "dialects",
            "sandbox",
            "prompts",
        )
    ),
    frozenset({"core.shell", "core.web"}),
    frozenset({"core.lsp", "core.hooks", "core.mcp", "core.acp", "core.background", "core.proof"}),
    frozenset({"core.tools"}),
    frozenset({"core.agent"}),
    frozenset({"core.engine", "core.demo"}),
    frozenset({"core.transports", "core.worker", "core.cli"}),
)
STRANGERS = LADDER[2]
# The folders of core.agent, lowest first: a module may import from its own folder and from those before it.
AGENT_FOLDERS = ("base", "answer", "mentions", "context", "debug", "gate", "turn")
SEEN_BY_TUI = (
    "core.protocol",
    "core.state",
    "core.modes",
    "core.errors",
    "core.patterns",
    "core.text.counting",
    "core.text.display_names",
    "core.text.exposure",
)
SLOW = (
    "PIL",
    "anthropic",
    "git",
    "jinja2",
    "keyring",
    "mcp",
    "openai",
    "pypdf",
    "rapidfuzz",
    "ruamel",
    "starlette",
    "tree_sitter",
    "uvicorn",
    "watchfiles",
)
# Plan files, model scripts and dialect texts are YAML; their readers are siblings and do not know each other.
SHARED = {
    "ruamel": {"core.plans.yaml_parser", "core.providers.script_file", "core.prompts.command_templates"},
    # a connection, what logs it in, and the server that we are ourselves
    "mcp": {"core.mcp.wire.sdk_connection", "core.mcp.login_flow", "core.transports.mcp.sdk_server"},
}
# The modules that import a package of an extra.
EXTRAS = {
    "team": {"core.background.postgres_store", "core.background.object_store"},
    "keyring": {"core.providers.connection.keys"},
}
# The server by HTTP is built on starlette and uvicorn, so it imports them when it is loaded, and nobody loads it but in
# a function.
HTTP = "core.transports.http"


def unit(module: str) -> str:
    """The part of core that a module belongs to: core.shadow.shadow -> core.shadow."""
    return ".".join(module.split(".")[:2])


def rung(module: str) -> int:
    for height, names in enumerate(LADDER):
        if unit(module) in names:
            return height
    raise AssertionError(f"{module} stands on no rung of the ladder: name {unit(module)} in LADDER")


def core_imports() -> list[Import]:
    return [statement for module in modules("core") for statement in imports(module)]


def within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def climbs(statement: Import) -> bool:
    if unit(statement.importer) == unit(statement.target):
        return False
    mine, theirs = rung(statement.importer), rung(statement.target)
    return theirs > mine or (theirs == mine and unit(statement.importer) in STRANGERS)


def test_every_module_of_core_stands_on_the_ladder():
    assert all(rung(module.name) >= 0 for module in modules("core"))


def test_no_import_in_core_points_up_the_ladder():
    wrong = [
        str(statement) for statement in core_imports() if within(statement.target, ("core",)) and climbs(statement)
    ]
    assert wrong == []


def agent_folder(module: str) -> int:
    """The height of the folder of core.agent that a module lies in."""
    return AGENT_FOLDERS.index(module.split(".")[2])


def climbs_in_agent(statement: Import) -> bool:
    return agent_folder(statement.target) > agent_folder(statement.importer)


def test_no_import_in_core_agent_points_up_its_folders():
    statements = [statement for module in modules("core/agent") for statement in imports(module)]
    wrong = [
        str(statement)
        for statement in statements
        if within(statement.target, ("core.agent",)) and climbs_in_agent(statement)
    ]
    assert wrong == []


def test_a_folder_of_core_agent_that_imports_a_higher_one_is_noticed():
    assert climbs_in_agent(Import("core.agent.base.budget", "core.agent.turn.loop", 1, eager=False, typing_only=True))
    assert not climbs_in_agent(
        Import("core.agent.turn.loop", "core.agent.base.budget", 1, eager=True, typing_only=False)
    )


def test_core_never_knows_the_screen():
    wrong = [
        str(statement)
        for statement in core_imports()
        if within(statement.target, ("tui", "textual", "rich", "agent_tui"))
    ]
    assert wrong == []


def test_tui_sees_only_the_protocol_and_the_errors_of_core():
    statements = [statement for module in modules("tui") for statement in imports(module)]
    wrong = [
        str(statement)
        for statement in statements
        if within(statement.target, ("core",)) and not within(statement.target, SEEN_BY_TUI)
    ]
    assert wrong == []


def test_only_the_bridge_knows_a_client():
    statements = [
        statement for module in modules("tui") if module.name != "tui.bridge" for statement in imports(module)
    ]
    wrong = [
        str(statement)
        for statement in statements
        if within(statement.target, ("core.protocol.client",)) and not statement.typing_only
    ]
    assert wrong == []


def test_the_launcher_brings_both_worlds_together():
    launcher = {statement.target.split(".")[0] for statement in imports(modules("agent_tui.py")[0])}
    assert {"core", "tui"} <= launcher


def test_the_launcher_imports_only_os_and_sys_when_it_is_loaded():
    eager = {statement.target for statement in imports(modules("agent_tui.py")[0]) if statement.eager}
    assert eager == {"os", "sys"}


def test_slow_libraries_are_imported_at_first_use():
    eager = [statement for module in program() for statement in imports(module) if statement.eager]
    wrong = [str(statement) for statement in eager if within(statement.target, SLOW) and not serves_http(statement)]
    assert wrong == []


def serves_http(statement: Import) -> bool:
    return within(statement.importer, (HTTP,)) and within(statement.target, ("starlette", "uvicorn"))


def test_the_server_by_http_is_loaded_at_first_use():
    wrong = [
        str(statement)
        for module in program()
        for statement in imports(module)
        if within(statement.target, (HTTP,)) and statement.eager and not within(statement.importer, (HTTP,))
    ]
    assert wrong == []


def test_each_slow_library_has_one_module_that_wraps_it():
    wrappers: dict[str, set[str]] = {}
    for module in program():
        for statement in imports(module):
            top = statement.target.split(".")[0]
            if top in SLOW and not statement.typing_only and not serves_http(statement):
                wrappers.setdefault(top, set()).add(statement.importer)
    shared = {library: sorted(where) for library, where in wrappers.items() if len(where) > 1}
    assert {library: where for library, where in shared.items() if not set(where) <= SHARED.get(library, set())} == {}


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(*extras: str) -> set[str]:
    table = project()
    requirements = [
        *table["dependencies"],
        *(requirement for extra in extras for requirement in table["optional-dependencies"][extra]),
    ]
    return {normalised(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]) for line in requirements}


@cache
def distributions() -> dict[str, set[str]]:
    """Which installed distributions an import name comes from."""
    owners_by_name = importlib.metadata.packages_distributions()
    return {name: set(map(normalised, owners)) for name, owners in owners_by_name.items()}


def undeclared(statements: list[Import], allowed: set[str]) -> list[str]:
    known = sys.stdlib_module_names | {"core", "tui", "agent_tui", "tests", "benchmarks"}
    foreign = [statement for statement in statements if statement.target.split(".")[0] not in known]
    return [
        str(statement)
        for statement in foreign
        if not distributions().get(statement.target.split(".")[0], set()) & allowed
    ]


def test_the_program_imports_only_declared_dependencies():
    statements = [statement for module in program() for statement in imports(module)]
    for extra, wrappers in EXTRAS.items():
        optional = [statement for statement in statements if statement.importer in wrappers]
        assert undeclared(optional, declared(extra)) == []
        statements = [statement for statement in statements if statement not in optional]
    assert undeclared(statements, declared()) == []


def test_the_tests_import_only_declared_dependencies():
    statements = [statement for module in modules("tests", "benchmarks") for statement in imports(module)]
    assert undeclared(statements, declared("dev")) == []


def test_the_walker_sees_imports_inside_functions_and_tells_them_from_eager_ones():
    statements = {statement.target: statement for statement in imports(modules("agent_tui.py")[0])}
    assert not statements["core.cli.print_mode.headless"].eager
    assert statements["core.cli.arguments"].importer == "agent_tui"
    assert statements["os"].eager
    assert statements["types"].typing_only


def test_a_sibling_on_the_third_rung_is_a_stranger():
    assert climbs(Import("core.shadow.shadow", "core.edits.matching.ladder", 1, eager=True, typing_only=False))
    assert climbs(Import("core.config", "core.tools.base", 1, eager=False, typing_only=False))
    assert not climbs(Import("core.tools.builtin.reading.grep", "core.shadow.shadow", 1, eager=True, typing_only=False))
    assert not climbs(Import("core.shadow.shadow", "core.shadow.diff.hunks", 1, eager=True, typing_only=False))


def test_n2_git_is_started_by_one_module():
    starting = {
        module.name
        for module in program()
        for node in module.nodes
        if isinstance(node, ast.List | ast.Tuple | ast.Call)
        for arg in (node.args[:1] if isinstance(node, ast.Call) else node.elts[:1])
        if isinstance(arg, ast.Constant) and isinstance(arg.value, str) and arg.value == "git"
        if not isinstance(node, ast.Call) or getattr(node.func, "attr", "") in {"which", "run", "Popen", "execvp"}
    }
    background = {"core.background.repositories", "core.worker"}  # in clones that are made for them alone
    assert starting == {"core.search_paths", "core.cli.doctor"}, "what looks for git calls core.search_paths.find_git"
    finding = {
        module.name
        for module in program()
        for node in module.nodes
        if isinstance(node, ast.ImportFrom) and node.module == "core.search_paths"
        if "find_git" in {name.name for name in node.names}
    }
    assert finding == {"core.git.repository", "core.cli.doctor"} | background, (
        "what starts git goes through core.git.repository; doctor only looks"
    )


# A type that two threads use for the first time at once ends the process: `core.records` has each learnt before.
def test_what_msgspec_does_by_a_type_goes_through_one_door():
    by_type = {
        f"{module.name}: {ast.unparse(call.func)}"
        for module in program()
        if module.name != "core.records"
        for call in module.nodes
        if isinstance(call, ast.Call) and "msgspec" in ast.unparse(call.func)
        if ast.unparse(call.func).endswith((".convert", ".Decoder"))
        or (ast.unparse(call.func).endswith(".decode") and (len(call.args) > 1 or call.keywords))
    }
    renamed = {
        f"{statement.importer} imports {statement.target}"
        for module in program()
        for statement in imports(module)
        if statement.target.startswith(("msgspec.json", "msgspec.msgpack", "msgspec.convert"))
    }
    assert (by_type, renamed) == (set(), set())
