"""`agent-tui agents`: start and control background agents, and bring their work under review."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import msgspec

from core.arguments import Arguments, Front
from core.background.control import SUCCESSION_SECONDS, WorkerLock, delete_agent, send_message, start_agent, stop_agent
from core.background.locations import open_configured_store
from core.background.records import ENDED, AgentLimits, AgentRequest, BackgroundAgent
from core.background.store import AgentStore, require_agent
from core.cli.parsing import MODES, build_parser, parse_count, parse_directory, parse_dollars
from core.cli.streams import write_json
from core.clock import now_ms
from core.errors import CommandRejected, StateError
from core.exits import ExitCode
from core.protocol.messages import Usage
from core.text.display_names import to_one_line

USAGE: Final = """\
agent-tui agents start "TASK" [DIR | --repo URL [--branch NAME]] [--model NAME]
                              [--mode MODE] [--max-steps N] [--max-cost USD]
       agent-tui agents list [--json]
       agent-tui agents show ID [--json] [--follow]
       agent-tui agents attach ID
       agent-tui agents message ID TEXT
       agent-tui agents stop ID
       agent-tui agents pull ID [DIR]
       agent-tui agents push ID BRANCH
       agent-tui agents delete ID
       agent-tui agents worker [--concurrency N]"""
TEXT: Final = """\
Start, steer or stop background agents, and pull their changes into your review. A
background agent works without a screen, in the shadow of a project or in a clone of
a repository. Agents are stored on this machine, or, with --database (or
AGENT_TUI_DATABASE, or background.database), in a team's PostgreSQL database, whose
workers run on any number of machines."""
VERBS: Final = ("start", "list", "show", "attach", "message", "stop", "pull", "push", "delete", "worker")


# Minimum and maximum number of words after a verb; one where it is not listed.
WORDS: Final = {"list": (0, 0), "worker": (0, 0), "start": (1, 2), "message": (2, 2), "push": (2, 2), "pull": (1, 2)}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentsArguments(Arguments):
    """`verb` with its words: the task for `start`, an id and a text for the others. `program`: the argv prefix that
    starts this program again."""

    front: ClassVar[Front] = "agents"
    verb: str
    name: str = ""
    text: str = ""
    request: AgentRequest | None = None
    database: str = ""
    as_json: bool = False
    follows: bool = False
    concurrency: int = 4
    until_idle: bool = False
    lease: int = 30
    program: tuple[str, ...] = ()


def build_command_line() -> argparse.ArgumentParser:
    """Return the parser of this subcommand."""
    parser = build_parser("agent-tui agents", USAGE, TEXT)
    parser.add_argument("verb", choices=VERBS, metavar="ACTION", help=", ".join(VERBS))
    parser.add_argument("words", nargs="*", metavar="WORD", help="the task, ID, directory or text, as above")
    parser.add_argument("--repo", metavar="URL", default="", help="work in a clone of this repository")
    parser.add_argument("--branch", metavar="NAME", default="", help="the branch to clone")
    parser.add_argument("--model", metavar="NAME", default="", help="the model, or acp/NAME for another agent")
    parser.add_argument("--mode", choices=MODES, metavar="MODE", default="agent", help=", ".join(MODES))
    parser.add_argument("--max-steps", type=parse_count, metavar="N", help="end a turn after N model calls")
    parser.add_argument("--max-cost", type=parse_dollars, metavar="USD", help="end a turn when it has cost this much")
    parser.add_argument("--max-tokens", type=parse_count, metavar="N", help="end a turn after N tokens")
    parser.add_argument("--database", metavar="URL", default="", help="the team's PostgreSQL database")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--follow", action="store_true", help="keep printing until it ends")
    parser.add_argument(
        "--concurrency", type=parse_count, metavar="N", default=4, help="agents that a worker runs at once (default: 4)"
    )
    parser.add_argument("--until-idle", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument(
        "--lease",
        type=parse_count,
        metavar="SECONDS",
        default=30,
        help="take over an agent whose worker is silent this long (default: 30)",
    )
    return parser


def parse(argv: Sequence[str]) -> AgentsArguments:
    """Parse the arguments of `agent-tui agents`. Raises SystemExit."""
    parser = build_command_line()
    args = parser.parse_intermixed_args(argv)
    words: list[str] = args.words
    minimum, maximum = WORDS.get(args.verb, (1, 1))
    if not minimum <= len(words) <= maximum:
        parser.error(
            f"{args.verb} takes {minimum if minimum == maximum else f'{minimum} or {maximum}'} words, got {len(words)}"
        )
    takes_directory = args.verb in {"start", "pull"}
    directory = parse_directory(words[1:] if takes_directory else [], parser)  # type: ignore[arg-type]
    request = None
    if args.verb == "start":
        limits = AgentLimits(max_steps=args.max_steps, max_cost=args.max_cost, max_tokens=args.max_tokens)
        request = AgentRequest(
            task_description=words[0],
            workspace_path="" if args.repo else str(directory),
            repository_url=args.repo,
            branch=args.branch,
            model=args.model,
            mode=args.mode,
            limits=limits,
        )
    return AgentsArguments(
        directory=directory,
        verb=args.verb,
        name=words[0] if words and args.verb != "start" else "",
        text=words[1] if args.verb in {"message", "push"} else "",
        request=request,
        database=args.database,
        as_json=args.json,
        follows=args.follow,
        concurrency=args.concurrency,
        until_idle=args.until_idle,
        lease=args.lease,
    )


def run(arguments: AgentsArguments) -> int:
    """Carry out the verb. Returns the exit code."""
    from core.cli.print_mode.shown_arguments import hide_arguments
    from core.config.loading import load_settings

    hide_arguments(arguments.text, arguments.request.task_description if arguments.request else "")
    store = open_configured_store(load_settings().background, database=arguments.database, lease=arguments.lease)
    if arguments.verb == "worker":
        return _run_worker(arguments, store)
    if arguments.verb == "attach":
        session = asyncio.run(_find_attachable(arguments, store))
        os.execv(arguments.program[0], [*arguments.program, "attach", session])
    return asyncio.run(_run(arguments, store))


def _run_worker(arguments: AgentsArguments, store: AgentStore) -> int:
    try:
        lock = None if store.stores_sessions else WorkerLock(SUCCESSION_SECONDS if arguments.until_idle else 0.0)
    except StateError:
        if arguments.until_idle:
            return ExitCode.DONE
        raise
    from core.worker import IDLE_SECONDS, serve_agents

    try:
        asyncio.run(
            serve_agents(
                store,
                concurrency=arguments.concurrency,
                idle_seconds=IDLE_SECONDS if arguments.until_idle else None,
            )
        )
    finally:
        if lock is not None:
            lock.close()
    return ExitCode.DONE


async def _run(arguments: AgentsArguments, store: AgentStore) -> int:
    await store.open()
    try:
        verb = {"start": _start, "list": _list, "show": _show, "pull": _pull, "push": _push, "delete": _delete}.get(
            arguments.verb
        )
        if verb is not None:
            return await verb(arguments, store)
        agent = await require_agent(store, arguments.name)
        if arguments.verb == "message":
            await send_message(store, agent, arguments.text, arguments.program)
        else:
            await stop_agent(store, agent)
        return ExitCode.DONE
    finally:
        await store.close()


async def _start(arguments: AgentsArguments, store: AgentStore) -> int:
    assert arguments.request is not None
    agent = await start_agent(store, arguments.request, arguments.program)
    sys.stdout.write(_encode(agent) if arguments.as_json else f"{agent.id}\n")
    return ExitCode.DONE


async def _list(arguments: AgentsArguments, store: AgentStore) -> int:
    agents = await store.list_agents()
    if arguments.as_json:
        write_json(msgspec.json.encode(agents))
        return ExitCode.DONE
    if not agents:
        sys.stdout.write('No background agents. Start one: agent-tui agents start "TASK"\n')
        return ExitCode.DONE
    rows = [
        (agent.id, agent.state, _format_age(agent), str(agent.pending), to_one_line(agent.title)) for agent in agents
    ]
    heads = ("ID", "STATE", "AGE", "PENDING", "TASK")
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(4)]
    for row in (heads, *rows):
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)]
        sys.stdout.write(f"{'  '.join((*cells, row[4]))}\n")
    return ExitCode.DONE


def _format_age(agent: BackgroundAgent) -> str:
    seconds = max(0, (now_ms() - agent.created) // 1000)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


async def _show(arguments: AgentsArguments, store: AgentStore) -> int:
    agent = await require_agent(store, arguments.name)
    _print(agent, as_json=arguments.as_json)
    if not arguments.follows or agent.state in ENDED:
        return ExitCode.DONE
    last = agent
    async with aclosing(store.watch()) as news:  # type: ignore[type-var]
        async for _ in news:
            current_agent = await store.find(agent.id)
            if current_agent is None:
                return ExitCode.DONE
            if current_agent != last:
                _print(current_agent, as_json=arguments.as_json)
            last = current_agent
            if current_agent.state in ENDED:
                return ExitCode.DONE if current_agent.state == "done" else ExitCode.FAILED
    return ExitCode.DONE


def _print(agent: BackgroundAgent, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(_encode(agent))
        return
    request = agent.request
    lines: list[tuple[str, Any]] = [
        ("id", agent.id),
        ("task", agent.title),
        ("state", agent.state),
        ("works in", request.repository_url or request.workspace_path),
        ("waits for", agent.waits_for),
        ("message", to_one_line(agent.message)),
        ("pending", agent.pending or ""),
        ("cost", Usage(cost=agent.cost, estimated=agent.estimated).format_cost()),
    ]
    for label, value in lines:
        if value:
            sys.stdout.write(f"{label:<10}{value}\n")
    if agent.state in ENDED and agent.pending and not agent.pulled:
        sys.stdout.write(f"Bring it into your review: agent-tui agents pull {agent.id}\n")


def _encode(agent: BackgroundAgent) -> str:
    return f"{json.dumps(msgspec.to_builtins(agent))}\n"


async def _pull(arguments: AgentsArguments, store: AgentStore) -> int:
    from core.background.control import pull_agent

    agent = await require_agent(store, arguments.name)
    session = await pull_agent(store, agent, arguments.directory)
    waiting = "1 file" if agent.pending == 1 else f"{agent.pending} files"
    sys.stdout.write(f"{waiting} pending review: agent-tui --resume {session}\n")
    return ExitCode.DONE


async def _push(arguments: AgentsArguments, store: AgentStore) -> int:
    from core.worker import push_agent

    agent = await require_agent(store, arguments.name)
    branch = await push_agent(store, agent, arguments.text)
    sys.stdout.write(f"Pushed to {agent.request.repository_url} as {branch}.\n")
    return ExitCode.DONE


async def _delete(arguments: AgentsArguments, store: AgentStore) -> int:
    agent = await require_agent(store, arguments.name)
    await delete_agent(store, agent)
    return ExitCode.DONE


async def _find_attachable(arguments: AgentsArguments, store: AgentStore) -> str:
    """Return the session of an agent that a screen here can show. Raises `CommandRejected`."""
    await store.open()
    try:
        agent = await require_agent(store, arguments.name)
    finally:
        await store.close()
    if agent.state in ENDED or not agent.session:
        raise CommandRejected(
            f"the agent is {agent.state}: there is nothing to attach to.",
            hint=f"agent-tui agents pull {agent.id} brings its changes here." if agent.session else "",
            code="nothing_to_attach",
        )
    return agent.session
