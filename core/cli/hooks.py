"""`agent-tui hooks`: list the hooks of a project and their origins, or test what every hook answers to an event.

A test runs the real processes in the real box, over the pending changes, and drops what they change.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from core.arguments import Arguments, Front
from core.cli.parsing import build_parser, parse_directory
from core.cli.streams import read_input, write_json
from core.engine import Engine, EngineOptions
from core.engine.queries.extensions import list_hooks
from core.errors import AgentTuiError
from core.exits import ExitCode
from core.hooks.answers import HookAnswer, HookRun, read_answer
from core.hooks.dialect_names import EVENTS_BY_NAME, HookEvent
from core.hooks.hook_files import HookTable, load_hooks
from core.hooks.parsing import Hook
from core.hooks.payload import HookScene, build_payload, encode_payload
from core.hooks.runner import HookRunner
from core.hooks.session_hooks import select_hooks
from core.permissions.trust import TrustStore
from core.protocol import commands as cmd
from core.protocol.queries import HookRow
from core.records import decode_json
from core.sandbox.plain_text import strip_escapes
from core.text.display_names import to_one_line
from core.text.exposure import expose_line
from core.workspace import Workspace

HOOKS_USAGE = "agent-tui hooks list [DIR] [--json] | test EVENT [--file INPUT.json] [DIR]"

HOOKS_TEXT = """\
List the hooks that run for DIR, in order, with the file that defines each; those
marked - do not run, because you have not approved them. `test` runs those of an
event as a session would, sandboxed, and shows input, output and outcome; their
changes are dropped. --file holds fields of the event, such as
{"tool_name": "Bash", "tool_input": {"command": "git push"}};
- is standard input. On the screen, /hooks shows the last result of each hook."""
MAX_SHOWN = 4_000  # characters of an output
MAX_INPUT = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class HooksArguments(Arguments):
    """`event` "": list the hooks. `file`: fields of the event, as JSON; "" = none, "-" = standard input."""

    front: ClassVar[Front] = "hooks"
    event: str = ""
    file: str = ""
    json: bool = False


def parse(argv: Sequence[str]) -> HooksArguments:
    """Parse the arguments of `agent-tui hooks`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui hooks", HOOKS_USAGE, HOOKS_TEXT)
    parser.add_argument("words", nargs="*", metavar="WORD", help="list, or test and the name of an event; a directory")
    parser.add_argument("--file", metavar="INPUT.json", default="", help="fields of the event")
    parser.add_argument("--json", action="store_true", help="the list, as JSON")
    args = parser.parse_intermixed_args(argv)
    words, event = list(args.words), ""
    action = words.pop(0) if words[:1] in (["list"], ["test"]) else "list"
    if action == "test":
        event = words.pop(0) if words else ""
        if event not in EVENTS_BY_NAME:
            parser.error(f"test needs an event: {', '.join(HookEvent)}")
    return HooksArguments(directory=parse_directory(words, parser), event=event, file=args.file, json=args.json)


def run(arguments: HooksArguments) -> int:
    """List the hooks, or test those of an event. Returns the exit code."""
    workspace = Workspace(arguments.directory)
    trust = TrustStore(workspace.root)
    is_trusted = trust.has_trust()
    table = load_hooks(workspace, trust.load_files().is_trusted if is_trusted else None)
    if arguments.event:
        try:
            fields = _read_fields(arguments.file)
        except (OSError, msgspec.DecodeError) as error:
            sys.stderr.write(f"agent-tui: {arguments.file} is not a JSON object: {error}\n")
            return ExitCode.USAGE
        return asyncio.run(_test(arguments.directory, table, EVENTS_BY_NAME[arguments.event], fields))
    rows = list_hooks(table, workspace.root, {})
    if arguments.json:
        write_json(msgspec.json.format(msgspec.json.encode(rows), indent=2))
        return ExitCode.DONE
    sys.stdout.write("".join(f"{line}\n" for line in format_hooks(rows, table)))
    if table.held:
        reason = "have changed since you trusted it" if is_trusted else "belong to a project that you do not trust yet"
        sys.stdout.write(f"Hooks marked - do not run: they {reason}.\n")
    return ExitCode.DONE


def format_hooks(rows: Sequence[HookRow], table: HookTable) -> Iterator[str]:
    """Format a line for every hook and every problem."""
    if not rows:
        yield "There are no hooks here."
    for row in rows:
        notes = [f"{row.timeout:g} s", *(["fails closed"] if row.fails_closed else []), to_one_line(row.source)]
        matcher_label = f" [{to_one_line(row.matcher)}]" if row.matcher else ""
        mark = "-" if row.trust == "held" else " "
        yield f"{mark} {row.event}{matcher_label}  {expose_line(row.command)}  ({', '.join(notes)})"
    for problem in table.problems:
        yield f"  ! {to_one_line(problem.source)}: {to_one_line(problem.message)}"


def _read_fields(name: str) -> dict[str, Any]:
    if not name:
        return {}
    if name == "-":
        data = read_input(sys.stdin.buffer, MAX_INPUT)
    else:
        with Path(name).open("rb") as file:
            data = file.read(MAX_INPUT)
    fields = decode_json(data)
    if not isinstance(fields, dict):
        raise msgspec.DecodeError("it is not an object")
    return fields


def _list_subjects(fields: Mapping[str, Any]) -> tuple[str, ...]:
    names = ("tool_name", "command", "subagent_type", "agent_type", "trigger", "source")
    return tuple(value for name in names if isinstance(value := fields.get(name), str))


def _list_texts(fields: Mapping[str, Any]) -> list[str]:
    tool_input = fields.get("tool_input")
    both = {**fields, **tool_input} if isinstance(tool_input, dict) else fields
    return [value for name in ("command", "file_path", "path") if isinstance(value := both.get(name), str)]


async def _test(directory: Path, table: HookTable, event: HookEvent, fields: Mapping[str, Any]) -> int:
    hooks = [hook for hook in table.hooks if hook.event is event]
    matching_hooks = select_hooks(hooks, _list_subjects(fields), _list_texts(fields))
    for hook in table.held:
        if hook.event is event:
            sys.stdout.write(f"not run, not approved yet: {expose_line(hook.command)}\n")
    if not matching_hooks:
        sys.stdout.write(f"No hook runs on {event}{f' for {_list_subjects(fields)[0]}' if fields else ''}.\n")
        return ExitCode.DONE
    options = EngineOptions(interactive=False, watch=False, preload=False, private=True)
    engine = Engine(directory, options=options)
    try:
        reply = await engine.submit(cmd.SessionOpen())
        if isinstance(reply, cmd.Reject):
            raise AgentTuiError(reply.message, hint=reply.hint)
        host = engine.terminal(reply.session).host
        runner, scene = HookRunner(host, lambda: False, lambda _: None), _build_scene(reply.session, host.workspace)
        is_refused = False
        for hook in matching_hooks:
            stdin = encode_payload(build_payload(hook, scene, fields))
            hook_run = await runner.run(hook, stdin)
            answer = read_answer(hook, hook_run)
            is_refused = is_refused or answer.permission == "deny"
            sys.stdout.write("".join(f"{line}\n" for line in _format_test(hook, stdin, hook_run, answer)))
        return ExitCode.FAILED if is_refused else ExitCode.DONE
    finally:
        await engine.close()


def _build_scene(session: str, workspace: Workspace) -> HookScene:
    return HookScene(session=session, root=workspace.root, turn="turn_test", model="none/test")


def _format_test(hook: Hook, stdin: bytes, hook_run: HookRun, answer: HookAnswer) -> Iterator[str]:
    yield f"{hook.event}  {expose_line(hook.command)}  ({to_one_line(hook.source)})"
    yield f"  stdin   {stdin.decode('utf-8', 'replace').strip()[:MAX_SHOWN]}"
    code = "none" if hook_run.exit_code is None else hook_run.exit_code
    yield f"  exit    {code} after {hook_run.duration_ms} ms"
    for name, text in (("stdout", hook_run.stdout), ("stderr", hook_run.stderr)):
        for line in strip_escapes(text[:MAX_SHOWN]).splitlines():
            yield f"  {name}  {to_one_line(line)}"
    answer_parts = [
        f"{name} {to_one_line(str(value))[:MAX_SHOWN]}"
        for name in ("permission", "reason", "message", "context", "followup", "changed_input", "output", "failure")
        if (value := getattr(answer, name))
    ]
    yield f"  answer  {'; '.join(answer_parts) or 'nothing: it continues'}"
