"""`agent-tui mcp`: list, add, remove or test MCP servers, log in to one, or serve as one.

Other programs read the same configuration file. So only one entry of it is changed, and everything else stays as it is.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, cast, get_args
from urllib.parse import urlsplit

import msgspec

from core.arguments import Arguments, Front
from core.cli.parsing import Parser, build_parser, parse_directory
from core.cli.streams import write_json
from core.engine import Engine, EngineOptions
from core.errors import AgentTuiError, ConfigError
from core.exits import ExitCode
from core.mcp.config_files import OWN_FILE, PROJECT_FILES, change_file, load_servers
from core.mcp.consent import ConsentStore
from core.mcp.package_servers import parse_package
from core.mcp.server_config import ServerConfig, Variables, is_variable_name
from core.mcp.server_rows import list_rows
from core.mcp.session_servers import SessionServers
from core.permissions.trust import TrustStore
from core.protocol import commands as cmd
from core.protocol.queries import ServersAnswer
from core.text.counting import count
from core.text.display_names import to_one_line
from core.text.exposure import expose_line
from core.text.lines import clip
from core.user_dirs import get_config_dir
from core.workspace import Workspace

MCP_USAGE = """\
agent-tui mcp [list] [DIR] [--json]
       agent-tui mcp add NAME [--scope WHERE] [--env NAME[=VALUE]] -- COMMAND ...
       agent-tui mcp add NAME --url URL [--scope WHERE] [--header 'NAME: VALUE']
       agent-tui mcp remove NAME [--scope WHERE]
       agent-tui mcp test NAME [--dir DIR]
       agent-tui mcp fetch NAME [--yes] [--dir DIR]
       agent-tui mcp login NAME [--no-browser]
       agent-tui mcp logout NAME
       agent-tui mcp serve [DIR]"""

MCP_TEXT = """\
List the MCP servers of DIR with their state; add one to your own configuration
(--scope user, the default) or to the project's .mcp.json (--scope project), or
remove it there; the rest of the file stays as it is. --env NAME alone passes
your variable of that name to the server. test starts a server as a session
would, sandboxed, lists its tools and stops it; files it writes are dropped.
fetch downloads the package of a server that npx or uvx starts, again if it is
there, after your yes; the server itself runs without a network. A server from
the project needs your approval first: /mcp on the screen, which also turns
servers and their tools on and off. login shows a remote server's login
page, opens it in your browser, and waits for you; logout forgets the login.

serve is itself a server, over standard input and output: another agent searches
DIR and proposes edits, which go to your review; see agent-tui help mcp."""

SIGNS: Final = {"unasked": "?", "refused": "-", "off": "-", "failed": "!"}
_STATES: Final = {"unasked": "  (needs your approval)", "refused": "  (not allowed)", "off": "  (off)"}
_MAX_DESCRIPTION: Final = 200  # characters of a description
Action = Literal["list", "add", "remove", "test", "fetch", "login", "logout", "serve"]
_ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
Scope = Literal["user", "project"]


@dataclass(frozen=True, slots=True, kw_only=True)
class McpArguments(Arguments):
    """`entry`: the server to add, None = no server."""

    front: ClassVar[Front] = "mcp"
    action: Action = "list"
    name: str = ""
    scope: Scope = "user"
    entry: dict[str, Any] | None = None
    json: bool = False
    browser: bool = True
    yes: bool = False


def parse(argv: Sequence[str]) -> McpArguments:
    """Parse the arguments of `agent-tui mcp`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui mcp", MCP_USAGE, MCP_TEXT)
    parser.add_argument("words", nargs="*", metavar="ACTION", help=f"{', '.join(_ACTIONS)}; NAME; DIR")
    parser.add_argument("--scope", choices=("user", "project"), default="user", help="which file to change")
    parser.add_argument("--url", default="", help="address of a remote server")
    parser.add_argument("--transport", choices=("http", "sse"), default="", help="of a remote server")
    parser.add_argument("--header", action="append", default=[], metavar="NAME: VALUE", help="sent to a remote server")
    parser.add_argument("--env", action="append", default=[], metavar="NAME[=VALUE]", help="a variable for the server")
    parser.add_argument("--timeout", type=int, default=0, metavar="MS", help="how long a call may be silent")
    parser.add_argument("--dir", default="", metavar="DIR", help="the project (default: the current directory)")
    parser.add_argument("--yes", action="store_true", help="fetch: don't ask")
    parser.add_argument("--no-browser", action="store_true", help="login: only print the page's address")
    parser.add_argument("--json", action="store_true", help="the list, as JSON")
    words = list(argv)
    index = words.index("--") if "--" in words else len(words)
    args, command = parser.parse_intermixed_args(words[:index]), words[index + 1 :]
    positionals = list(args.words)
    action: Action = cast("Action", positionals.pop(0)) if positionals and positionals[0] in _ACTIONS else "list"
    if action in {"list", "serve"}:
        directory = parse_directory(positionals or _list_given(args.dir), parser)
        return McpArguments(directory=directory, action=action, json=args.json)
    if len(positionals) != 1:
        parser.error(f"{action} takes one NAME" + ("; put the command after --" if action == "add" else ""))
    entry = _build_entry(args, command, parser) if action == "add" else None
    directory = parse_directory(_list_given(args.dir), parser)
    return McpArguments(
        directory=directory,
        action=action,
        name=positionals[0],
        scope=args.scope,
        entry=entry,
        browser=not args.no_browser,
        yes=args.yes,
    )


def _list_given(word: str) -> list[str]:
    return [word] if word else []


def _build_entry(args: Any, command: list[str], parser: Parser) -> dict[str, Any]:
    """Build the configuration entry that the options describe; exits for wrong options."""
    if bool(command) == bool(args.url):
        parser.error("add takes either --url URL, or a command after --: agent-tui mcp add NAME -- COMMAND ...")
    entry: dict[str, Any] = {}
    if args.url:
        if args.env:
            parser.error("--env is for a command; use --header for a remote server")
        entry |= {"type": args.transport or "http", "url": args.url}
        pairs = [header.partition(":") for header in args.header]
        if any(not name.strip() or not colon for name, colon, _ in pairs):
            parser.error("--header takes 'NAME: VALUE'")
        entry |= {"headers": {name.strip(): value.strip() for name, _, value in pairs}} if pairs else {}
    else:
        if args.header or args.transport:
            parser.error("--header and --transport are for a remote server, with --url")
        entry |= {"command": command[0], "args": command[1:]}
        entry |= {"env": dict(_parse_variable(variable, parser) for variable in args.env)} if args.env else {}
    return entry | ({"timeout": args.timeout} if args.timeout else {})


def _parse_variable(text: str, parser: Parser) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not is_variable_name(name):
        parser.error(f"--env takes NAME or NAME=VALUE, got {text!r}")
    return name, value if equals else f"${{{name}}}"


def run(arguments: McpArguments) -> int:
    """Carry out the action. Returns the exit code. Raises `ConfigError`, `StateError`."""
    match arguments.action:
        case "list":
            return _print_list(arguments)
        case "test" | "fetch":
            return asyncio.run(_try_server(arguments))
        case "serve":
            from core.transports.mcp.sdk_server import serve

            serve(arguments.directory)
            return ExitCode.DONE
        case "login" | "logout":
            return _log_in_or_out(arguments)
        case _:
            return _change(arguments)


def _change(arguments: McpArguments) -> int:
    is_shared = arguments.scope == "project"
    path = arguments.directory / PROJECT_FILES[0] if is_shared else get_config_dir() / OWN_FILE
    change_file(path, arguments.name, arguments.entry, is_shared=is_shared)
    verb = "removed from" if arguments.entry is None else "added to"
    needs = " It needs your approval before it runs: /mcp on the screen." if is_shared and arguments.entry else ""
    sys.stdout.write(f"{arguments.name} {verb} {to_one_line(str(path))}.{needs}\n")
    return ExitCode.DONE


def _print_list(arguments: McpArguments) -> int:
    workspace = Workspace(arguments.directory)
    trust = TrustStore(workspace.root)
    answer = list_rows(workspace, trust.load_files().is_trusted if trust.has_trust() else None)
    if arguments.json:
        write_json(msgspec.json.format(msgspec.json.encode(answer), indent=2))
    else:
        sys.stdout.write("".join(f"{line}\n" for line in format_servers(answer)))
    return ExitCode.DONE


def format_servers(answer: ServersAnswer) -> Iterator[str]:
    """Format a line for every server: its sign (+ on, ? needs a yes, - off or refused), name, source and tools; then
    its entry and its problems."""
    if not answer.servers:
        yield f"There are no MCP servers {'here' if answer.is_trusted else 'of your own'}."
    for server in answer.servers:
        tools = f", {len(server.tools)} tools" if server.tools else ""
        state = _STATES.get(server.state, "")
        yield f"{SIGNS.get(server.state, '+')} {server.name}  [{to_one_line(server.source)}{tools}]{state}"
        yield from (f"    {expose_line(line)}" for line in server.entry.splitlines())
        off = [to_one_line(tool.name) for tool in server.tools if not tool.is_on]
        if off:
            yield f"    off: {', '.join(off)}"
    for problem in answer.problems:
        yield f"! {to_one_line(problem)}"
    if not answer.is_trusted:
        yield "This project is not trusted: its own servers are not loaded."


def _log_in_or_out(arguments: McpArguments) -> int:
    from core.mcp.login_flow import log_in, log_out, open_in_browser

    def show(url: str) -> None:
        safe_url = to_one_line(url)
        sys.stdout.write(f"Log in to {arguments.name} at {urlsplit(url).netloc}, on this page:\n\n{safe_url}\n\n")
        is_open = arguments.browser and open_in_browser(url)
        sys.stdout.write("It is open in your browser; " if is_open else "Open it in a browser on this machine; ")
        sys.stdout.write("waiting until you come back.\n")
        sys.stdout.flush()

    config = _find_allowed(arguments)
    variables = Variables(Workspace(arguments.directory).root, os.environ)
    if arguments.action == "logout":
        is_forgotten = log_out(config, variables)
        sys.stdout.write(f"The login to {config.name} is {'forgotten' if is_forgotten else 'not stored'}.\n")
    else:
        sys.stdout.write(f"{to_one_line(asyncio.run(log_in(config, variables, show)))}\n")
    return ExitCode.DONE


def _find_allowed(arguments: McpArguments) -> ServerConfig:
    """Find the entry of a server that may be used. Raises `ConfigError`."""
    workspace = Workspace(arguments.directory)
    trust = TrustStore(workspace.root)
    servers = load_servers(workspace, trust.load_files().is_trusted if trust.has_trust() else None).servers
    config = next((server for server in servers if server.name == arguments.name), None)
    if config is None:
        raise ConfigError(f"there is no MCP server {arguments.name!r} here.", hint="agent-tui mcp list shows them.")
    if not ConsentStore(workspace.root).get_answer(config):
        raise ConfigError(
            f"{config.name} comes from a project file and needs your approval.", hint="Approve it in /mcp."
        )
    return config


async def _try_server(arguments: McpArguments) -> int:
    """Start a server for its tools, or fetch its package, in a private session."""
    engine = Engine(
        arguments.directory, options=EngineOptions(interactive=False, watch=False, preload=False, private=True)
    )
    try:
        reply = await engine.submit(cmd.SessionOpen())
        if isinstance(reply, cmd.Reject):
            raise AgentTuiError(reply.message, hint=reply.hint)
        servers = engine.server_access(reply.session).servers
        config = await servers.find_config(arguments.name)
        if config is None:
            raise ConfigError(f"there is no MCP server {arguments.name!r} here.", hint="agent-tui mcp list shows them.")
        return await (_fetch if arguments.action == "fetch" else _test)(arguments, servers, config)
    finally:
        await engine.close()


async def _test(arguments: McpArguments, servers: SessionServers, config: ServerConfig) -> int:
    tools = await servers.probe(config)
    sys.stdout.write(f"{arguments.name} started and has {count('tool', len(tools))}:\n")
    for tool in tools:
        description = next(iter((tool.description or "").strip().split("\n")), "")
        reads = "  (read-only, it says)" if tool.is_reading else ""
        sys.stdout.write(f"  {expose_line(tool.name)}{reads}\n")
        sys.stdout.write(f"    {expose_line(clip(description, _MAX_DESCRIPTION))}\n" if description else "")
    return ExitCode.DONE


async def _fetch(arguments: McpArguments, servers: SessionServers, config: ServerConfig) -> int:
    """Fetch a package after a yes; the yes is one to the download alone."""
    package = parse_package(config.command, Workspace(arguments.directory).root)
    if package is None:
        raise ConfigError(f"{config.name} downloads nothing.", hint=f"agent-tui mcp test {config.name} starts it.")
    sys.stdout.write(f"{to_one_line(config.source)}: {expose_line(shlex.join(config.command))}\n{package.describe()}\n")
    if not arguments.yes and not _has_agreed():
        sys.stdout.write("Nothing was fetched. --yes answers yes.\n")
        return ExitCode.REFUSED
    await servers.fetch(config)
    sys.stdout.write(f"Fetched {expose_line(package.spec)} into {to_one_line(str(package.folder))}.\n")
    return ExitCode.DONE


def _has_agreed() -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        return False
    sys.stdout.write("Fetch it? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
