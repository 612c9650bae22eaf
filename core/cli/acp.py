"""`agent-tui acp`: serve as the agent of an editor over the Agent Client Protocol; see docs/editors-and-http.md."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from getpass import getpass
from pathlib import Path
from typing import ClassVar, Final

from core.arguments import Arguments, Front
from core.cli.parsing import (
    EFFORTS,
    MODES,
    build_parser,
    parse_agent,
    parse_count,
    parse_dollars,
    parse_model,
    parse_seconds,
)
from core.errors import ConfigError
from core.exits import ExitCode
from core.protocol.options import EngineOptions

ANSWER_SECONDS: Final = 600
REVIEWS: Final = ("end", "each", "later")
USAGE: Final = """\
agent-tui acp [--model PROVIDER/NAME | --agent NAME] [--mode MODE]
                     [--effort LEVEL] [--review end|each|later] [--auto-accept]
       agent-tui acp --setup"""
TEXT: Final = """\
Serve an editor that speaks the Agent Client Protocol (Zed, JetBrains, Neovim,
Emacs and others) over standard input and output. The agent's edits stay in the
shadow until you accept them in the editor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcpArguments(Arguments, EngineOptions):
    """`review`: the review policy at the end of a turn. `auto_accept`: the editor may choose to accept edits without
    asking. `answer_timeout`: seconds that the editor may take to answer. `setup`: set up a model in a terminal."""

    front: ClassVar[Front] = "acp"
    wakes: bool = False
    review: str = "end"
    auto_accept: bool = False
    answer_timeout: int = ANSWER_SECONDS
    setup: bool = False


def parse(argv: Sequence[str]) -> AcpArguments:
    """Parse the arguments of `agent-tui acp`; exits for wrong ones."""
    parser = build_parser("agent-tui acp", USAGE, TEXT)
    parser.add_argument("--model", type=parse_model, metavar="NAME", help="the model for new sessions")
    parser.add_argument("--agent", dest="model", type=parse_agent, metavar="NAME", help="let another agent answer")
    parser.add_argument("--mode", choices=MODES, metavar="MODE", help=f"{', '.join(MODES)}")
    parser.add_argument("--effort", choices=EFFORTS, metavar="LEVEL", help=f"{', '.join(EFFORTS)}")
    parser.add_argument(
        "--review", choices=REVIEWS, default="end", help="review edits file by file, hunk by hunk, or only on request"
    )
    parser.add_argument("--auto-accept", action="store_true", help="let the editor accept edits without asking")
    parser.add_argument(
        "--answer-timeout",
        type=parse_seconds,
        default=ANSWER_SECONDS,
        metavar="S",
        help="seconds to wait for the editor's answer to a question",
    )
    parser.add_argument("--max-steps", type=parse_count, metavar="N", help="end a turn after N model calls")
    parser.add_argument("--max-cost", type=parse_dollars, metavar="USD", help="end a turn when it has cost this much")
    parser.add_argument("--max-tokens", type=parse_count, metavar="N", help="end a turn after N tokens")
    parser.add_argument("--trust", action="store_true", help="load the rules and configuration of all projects")
    parser.add_argument("--setup", action="store_true", help="choose a provider, save a key, then quit")
    values = vars(parser.parse_args(argv))
    field_names = {field.name for field in fields(AcpArguments)}
    return AcpArguments(directory=Path.cwd(), **{name: value for name, value in values.items() if name in field_names})


def run(arguments: AcpArguments) -> int:
    """Serve an editor until it disconnects, or set up a model."""
    if arguments.setup:
        return asyncio.run(_set_up())
    from core.transports.acp.agent import AgentTerms
    from core.transports.acp.server import serve
    from core.transports.acp.session_options import parse_review

    if sys.stdin.isatty():
        sys.stderr.write(
            "agent-tui acp waits for an editor, which starts it: see agent-tui help editors. Ctrl+D ends it.\n"
        )
    serve(
        AgentTerms(
            options=arguments,
            seconds=float(arguments.answer_timeout),
            review=parse_review(arguments.review, can_accept=False),
            can_accept=arguments.auto_accept,
        )
    )
    return ExitCode.DONE


async def _set_up() -> int:
    """Ask for a provider, its key and a model, and save them as the welcome screen does."""
    from core.protocol import commands as cmd
    from core.transports.acp.logins import list_providers, save_login

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("setup needs a terminal.", hint="Run agent-tui acp --setup in one.")
    providers = await list_providers()
    for number, provider_status in enumerate(providers, 1):
        sys.stdout.write(
            f"{number:>3}  {provider_status.label}{f' (has {provider_status.key})' if provider_status.key else ''}\n"
        )
    choice = await asyncio.to_thread(input, "Provider: ")
    if not (choice.isdecimal() and 0 < int(choice) <= len(providers)):
        raise ConfigError(f"{choice!r} is not on the list.", hint="Start again, and enter a number from the list.")
    provider = providers[int(choice) - 1]
    key = await asyncio.to_thread(getpass, f"Key for {provider.label} (empty: no change): ")
    model = (await asyncio.to_thread(input, f"Model ({provider.id}/NAME; empty: no change): ")).strip()
    name = model if model.startswith(f"{provider.id}/") or not model else f"{provider.id}/{model}"
    await save_login(cmd.ProviderConfigure(provider=provider.id, key=key.strip(), model=name))
    sys.stdout.write("Saved. Return to your editor.\n")
    return ExitCode.DONE
