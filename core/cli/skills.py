"""`agent-tui skills`: list the skills that an agent can open, with the reasons, or check them for problems."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import msgspec

from core.arguments import Arguments, Front
from core.cli.parsing import build_parser, parse_directory
from core.cli.streams import write_json
from core.engine.queries.extensions import list_skills
from core.exits import ExitCode
from core.permissions.trust import TrustStore
from core.protocol.queries import LoadedSkill, SkillsAnswer, SkippedExtension
from core.text.display_names import to_one_line
from core.workspace import Workspace

SKILLS_USAGE = """\
agent-tui skills [list] [DIR] [--for FILE ...] [--json]
       agent-tui skills check [DIR] [--json]"""

SKILLS_TEXT = """\
List the skills that an agent in DIR can open, with why each is listed to it or
not, and files that are not valid skills. check lists only problems, and fails if
there are any. A project's skills are listed once you trust it. On the screen,
/skills shows those of the session."""

UNTRUSTED: Final = "This project is not trusted: its own files are not loaded.\n"
_SIGNS: Final = {"open": "=", "offered": "+", "named": "~", "hidden": "-"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillsArguments(Arguments):
    """`paths`: files that are worked on, relative to the project."""

    front: ClassVar[Front] = "skills"
    is_check: bool = False
    paths: tuple[str, ...] = ()
    json: bool = False


def parse(argv: Sequence[str]) -> SkillsArguments:
    """Parse the arguments of `agent-tui skills`; exits as `core.cli.arguments.parse` does."""
    parser = build_parser("agent-tui skills", SKILLS_USAGE, SKILLS_TEXT)
    parser.add_argument("words", nargs="*", metavar="ACTION", help="list (default) or check; DIR")
    parser.add_argument("--for", dest="paths", action="append", metavar="FILE", help="a file being worked on")
    parser.add_argument("--json", action="store_true", help="everything, as JSON")
    args = parser.parse_intermixed_args(argv)
    action, words = (args.words[0], args.words[1:]) if args.words[:1] in (["list"], ["check"]) else ("list", args.words)
    directory = parse_directory(words, parser)
    return SkillsArguments(
        directory=directory, is_check=action == "check", paths=tuple(args.paths or ()), json=args.json
    )


def run(arguments: SkillsArguments) -> int:
    """Print the skills, or their problems."""
    workspace = Workspace(arguments.directory)
    trust = TrustStore(workspace.root)
    check = trust.load_files().is_trusted if trust.has_trust() else None
    answer = list_skills(workspace, check, arguments.paths)
    wrong = _list_wrong(answer)
    code = ExitCode.FAILED if arguments.is_check and wrong else ExitCode.DONE
    if arguments.json:
        write_json(msgspec.json.format(msgspec.json.encode(answer), indent=2))
        return code
    right = "No problems." if check is not None else "No problems with your own."
    lines = wrong or [right] if arguments.is_check else format_skills(answer)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    if check is None:
        sys.stdout.write(UNTRUSTED)
    return code


def format_skills(answer: SkillsAnswer) -> list[str]:
    """Format a line for every skill: its sign (+ offered, ~ by name, - hidden), name and path; below it, the reason."""
    lines = [f"There are no skills {'here' if answer.is_trusted else 'of your own'}."] if not answer.skills else []
    width = max((len(skill.name) for skill in answer.skills), default=0)
    for skill in answer.skills:
        lines.append(f"{_SIGNS[skill.state]} {to_one_line(skill.name):<{width}}  {to_one_line(skill.path)}")
        lines.append(f"    {to_one_line(skill.reason)}")
        lines += [f"  ! {to_one_line(skill.note)}"] if skill.note else []
    return lines + format_skipped(answer.skipped)


def format_skipped(skipped: Sequence[SkippedExtension]) -> list[str]:
    """Format a line for every file that defines no extension."""
    return [f"! {to_one_line(entry.path)} is not a skill: {to_one_line(entry.reason)}" for entry in skipped]


def _list_wrong(answer: SkillsAnswer) -> list[str]:
    return [_describe_note(skill) for skill in answer.skills if skill.note] + format_skipped(answer.skipped)


def _describe_note(skill: LoadedSkill) -> str:
    return f"! {to_one_line(skill.path)}: {to_one_line(skill.note)}"
