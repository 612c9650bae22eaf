"""`agent-tui serve`: serve the engine by HTTP to programs that hold one of its tokens."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from core.arguments import Arguments, Front
from core.cli.parsing import add_directory, build_parser, parse_directory
from core.errors import ConfigError
from core.exits import ExitCode
from core.filesystem.name_spelling import resolve_spelled
from core.protocol.options import EngineOptions

if TYPE_CHECKING:
    from core.engine.shared.models import ModelAccess
    from core.transports.http.server import ListenAddress

SERVE_USAGE = """\
agent-tui serve [DIR] [--web] [--host HOST] [--port N | --socket PATH]
                       [--token-file FILE] [--tls-cert FILE --tls-key FILE]
                       [--allow-origin ORIGIN ...] [--allow-host HOST ...]"""

SERVE_TEXT = """\
Serve the chat API and the sessions of DIR over HTTP: see agent-tui help http.
Clients need a token: read, drive or approve. The tokens are created at the start,
in a file that only you can read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeArguments(Arguments):
    """`port` 0: any free one. `token_file` None: one for this run, in the state directory. `has_page`: serve the web
    page. `program`: the argv prefix that starts this program again, for a screen of the page and for a worker."""

    front: ClassVar[Front] = "serve"
    host: str = "127.0.0.1"
    port: int = 0
    socket_path: Path | None = None
    token_file: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    has_page: bool = False
    program: tuple[str, ...] = ()

    def build_address(self) -> ListenAddress:
        """Return where to listen. Raises `ConfigError` if others could eavesdrop."""
        from core.transports.http.server import ListenAddress

        listen_address = ListenAddress(
            host=self.host,
            port=self.port,
            socket_path=self.socket_path,
            certificate=self.certificate,
            key=self.key,
        )
        listen_address.check_exposure()
        return listen_address


def _parse_port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number up to 65535, 0 = any free one")
    return int(text)


def _parse_path(text: str) -> Path:
    return Path(text).expanduser().absolute()


def parse(argv: Sequence[str]) -> ServeArguments:
    """Parse the arguments of `agent-tui serve`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui serve", SERVE_USAGE, SERVE_TEXT)
    add_directory(parser)
    parser.add_argument(
        "--web", action="store_true", help="also serve a web page: review on a phone, the screen in a tab"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=_parse_port, metavar="N", help="port to listen on (default: any free one)")
    parser.add_argument("--socket", type=_parse_path, metavar="PATH", help="listen on a Unix socket instead")
    parser.add_argument("--token-file", type=_parse_path, metavar="FILE", help="token file, kept between runs")
    parser.add_argument("--tls-cert", type=_parse_path, metavar="FILE", help="certificate, in PEM")
    parser.add_argument("--tls-key", type=_parse_path, metavar="FILE", help="its key, in PEM")
    parser.add_argument(
        "--allow-origin", action="append", metavar="ORIGIN", help="web page that may call: http://HOST:PORT"
    )
    parser.add_argument(
        "--allow-host", action="append", metavar="HOST", help="another name for this server: HOST[:PORT]"
    )
    args = parser.parse_intermixed_args(argv)
    if (args.tls_cert is None) != (args.tls_key is None):
        parser.error("--tls-cert and --tls-key need each other")
    if args.socket is not None and (args.port is not None or args.tls_cert is not None):
        parser.error("--socket replaces port and TLS")
    return ServeArguments(
        directory=parse_directory(args.words, parser),
        host=args.host,
        port=args.port or 0,
        socket_path=args.socket,
        token_file=args.token_file,
        certificate=args.tls_cert,
        key=args.tls_key,
        origins=tuple(args.allow_origin or ()),
        hosts=tuple(args.allow_host or ()),
        has_page=args.web,
    )


def run(arguments: ServeArguments, *, models: ModelAccess | None = None) -> int:
    """Serve until a signal ends it. Returns the exit code. Raises `ConfigError`."""
    from core.engine import Engine
    from core.transports.engine_host import share_engine
    from core.transports.engines import Engines
    from core.transports.http import access, server
    from core.transports.http.app import build_application
    from core.transports.http.service import AgentAccess, HttpService
    from core.transports.http.terminal import Terminals

    endpoint = arguments.build_address()
    path = _choose_token_file(arguments)
    tokens = access.load_tokens(path)
    listening = server.open_socket(endpoint)
    port = 0 if endpoint.socket_path is not None else int(listening.getsockname()[1])
    rules = server.build_rules(
        endpoint, port, tokens, origins=arguments.origins, hosts=arguments.hosts, has_page=arguments.has_page
    )
    url = "" if endpoint.socket_path is not None else server.build_url(endpoint, port)
    access.save_tokens(path, tokens, url=url, socket=str(endpoint.socket_path or ""))
    address = f"{url}#{tokens.approve}" if url else f"unix:{endpoint.socket_path}"
    defaults = EngineOptions(preload=False, program=arguments.program, wakes=False)
    engines = Engines(defaults, lambda path, options: share_engine(Engine(path, options=options, models=models)))
    agents = AgentAccess(arguments.directory, arguments.program)
    page = (Terminals(arguments.program), server.build_gates(endpoint)) if arguments.has_page else (None, None)
    service = HttpService(engines, arguments.directory, agents, terminals=page[0], gates=page[1])
    serving = server.HttpServer(
        listening,
        build_application(service, rules),
        listen_address=endpoint,
        service=service,
        on_ready=partial(_announce, address, str(arguments.directory), path),
    )
    try:
        asyncio.run(serving.run())
    finally:
        if arguments.token_file is None:
            path.unlink(missing_ok=True)
    return ExitCode.DONE


def _announce(address: str, directory: str, token_file: Path) -> None:
    """Print the address, which other programs read, and say where the tokens are."""
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()
    sys.stderr.write(f"Serving {directory}. The tokens (read, drive, approve) are in {token_file}.\n")


def _choose_token_file(arguments: ServeArguments) -> Path:
    """Return the path of the token file. Raises `ConfigError` for one that the agent could read."""
    from core.transports.http.access import get_default_path

    path = arguments.token_file or get_default_path()
    if resolve_spelled(path).is_relative_to(arguments.directory):
        raise ConfigError(
            f"{path} is in the project, where its agent could read the tokens.",
            hint="Name a file outside it.",
            code="token_file_in_project",
        )
    return path
