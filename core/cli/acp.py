"""`agent-tui acp`: serve as the agent of an editor over the Agent Client Protocol; see docs/editors-and-http.md."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from getpass import getpass
from pathlib import Path
from typing import ClassVar, Final

from core.cli.parsing import (
    EFFORTS,
    MODES,
    Arguments,
    Front,
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
Emacs ...) over standard input and output. What the agent edits stays in the
shadow until you accept it in the editor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcpArguments(Arguments, EngineOptions):
    """`review`: the review policy at the end of a turn. `auto_accept`: the editor may choose to accept edits without
    asking. `answer_timeout`: seconds that the editor may take to answer. `setup`: set up a model in a terminal."""

    front: ClassVar[Front] = "acp"
    review: str = "end"
    auto_accept: bool = False
    answer_timeout: int = ANSWER_SECONDS
    setup: bool = False


def parse(argv: Sequence[str]) -> AcpArguments:
    """Parse the arguments of `agent-tui acp`; exits for wrong ones."""
    parser = build_parser("agent-tui acp", USAGE, TEXT)
    parser.add_argument("--model", type=parse_model, metavar="NAME", help="the model to begin sessions with")
    parser.add_argument("--agent", dest="model", type=parse_agent, metavar="NAME", help="let another agent answer")
    parser.add_argument("--mode", choices=MODES, metavar="MODE", help=f"{', '.join(MODES)}")
    parser.add_argument("--effort", choices=EFFORTS, metavar="LEVEL", help=f"{', '.join(EFFORTS)}")
    parser.add_argument(
        "--review", choices=REVIEWS, default="end", help="ask about edits file by file, hunk by hunk, or at your word"
    )
    parser.add_argument("--auto-accept", action="store_true", help="let the editor choose to accept edits unasked")
    parser.add_argument(
        "--answer-timeout",
        type=parse_seconds,
        default=ANSWER_SECONDS,
        metavar="S",
        help="seconds until a question that the editor does not answer counts as not answered",
    )
    parser.add_argument("--max-steps", type=parse_count, metavar="N", help="end a turn after N model calls")
    parser.add_argument("--max-cost", type=parse_dollars, metavar="USD", help="end a turn when it has cost this much")
    parser.add_argument("--max-tokens", type=parse_count, metavar="N", help="end a turn after N tokens")
    parser.add_argument("--trust", action="store_true", help="hear the rules and configuration of all projects")
    parser.add_argument("--setup", action="store_true", help="choose a provider and save a key, then leave")
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
            "agent-tui acp waits for the lines of an editor, which starts it by itself: see docs/editors-and-http.md\n"
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
        raise ConfigError("the set-up asks in a terminal.", hint="Start agent-tui acp --setup in one.")
    providers = await list_providers()
    for number, provider_status in enumerate(providers, 1):
        sys.stdout.write(
            f"{number:>3}  {provider_status.label}{f' (has {provider_status.key})' if provider_status.key else ''}\n"
        )
    choice = await asyncio.to_thread(input, "Provider: ")
    if not (choice.isdecimal() and 0 < int(choice) <= len(providers)):
        raise ConfigError(f"{choice!r} is none of them.", hint="Start again, and give a number of the list.")
    provider = providers[int(choice) - 1]
    key = await asyncio.to_thread(getpass, f"Key for {provider.label} (empty: keep it as it is): ")
    model = (await asyncio.to_thread(input, f"Model ({provider.id}/NAME; empty: as it is): ")).strip()
    name = model if model.startswith(f"{provider.id}/") or not model else f"{provider.id}/{model}"
    await save_login(cmd.ProviderConfigure(provider=provider.id, key=key.strip(), model=name))
    sys.stdout.write("Saved. Go back to your editor.\n")
    return ExitCode.DONE
