"""What the command line says of itself, and the parsers of the subcommands that take options of their own."""

from __future__ import annotations

import argparse

from core.modes import Mode

USAGE = """\
agent-tui [DIR] [-c | --resume ID] [--mode MODE] [--model PROVIDER/NAME]
                 [--effort LEVEL]
       agent-tui [DIR] -p [PROMPT] [--output-format FORMAT] [--accept WHICH]
       agent-tui box run [--mode MODE] [--tier TIER] [--keep] DIR COMMAND
       agent-tui review [DIR] [--print] [--accept PATH ... | --reject PATH ...]
       agent-tui plan list | show [FILE] | check [FILE] | set FILE TODO STATUS
       agent-tui sessions [DIR]
       agent-tui permissions [DIR] [--remove ID]
       agent-tui image < PICTURE
       agent-tui models [DIR] [--json]
       agent-tui doctor [DIR] [--probe]
       agent-tui --demo [-c]"""

DESCRIPTION = """\
A terminal chat IDE. The agent edits in a shadow of your project: nothing
reaches your files until you accept it, hunk by hunk. Commands run in a box
over the shadow; where a machine has none, each one waits for your yes."""

EXAMPLES = """\
commands:
  box run               run one command in the box and list what it did;
                        agent-tui box run --help says more
  review                show, accept or reject what waits for a review
  plan                  list, show or check the plans of this project, or set
                        the status of a todo; agent-tui plan --help says more
  sessions              list the sessions of this workspace, newest first
  image                 keep a picture from standard input and print its path,
                        to be pasted into the prompt: for SSH
  permissions           list what you allowed and refused for good, or forget it
  models                show which model does what: its effort, its fallbacks,
                        its window, and whether its price is known
  doctor                show versions, state directory, configuration, keys
                        found (names only), local model servers and what
                        contains commands; --probe tries every way anew
                        (a directory of such a name is reached as ./sessions)

examples:
  agent-tui                        open the current directory
  agent-tui --demo                 the whole job on a sample project, no key
  agent-tui ~/src/shop -c          go on with the last session there
  agent-tui --mode plan --model openai/gpt-5
  agent-tui --model ollama/qwen3   a model server on this machine
  agent-tui -p "why does test_tax fail?" --mode ask
  git diff | agent-tui -p "review this" --output-format json
  agent-tui -p "what is wrong here?" --image screenshot.png
  agent-tui -p "fix the failing test" --accept all --max-cost 0.50"""

ENVIRONMENT = """\
environment:
  OPENAI_API_KEY, OPENAI_BASE_URL         a server that speaks chat completions
  ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL   a server that speaks messages
  OLLAMA_HOST                             where Ollama listens
  AGENT_TUI_CONFIG_DIR                    where config.toml is
  AGENT_TUI_STATE_DIR                     where sessions and pasted keys are
  AGENT_TUI_TRACEBACK=1                   show where an error came from
  VISUAL, EDITOR                          the editor that Ctrl+G opens"""

TIERS = ("T1", "T2a", "T2b", "T2c", "T3")

BOX_USAGE = "agent-tui box run [--mode MODE] [--tier TIER] [--timeout SECONDS] [--keep] [--report FILE] DIR COMMAND"
REVIEW_USAGE = "agent-tui review [DIR] [--print] [--accept all | PATH ...] [--reject all | PATH ...]"

BOX_TEXT = """\
Run one shell command in DIR exactly as the agent's terminal would: in the box,
without network, without input, over what is pending. Its standard output and
standard error are this program's own, every byte as it is unless that is a
terminal. Then, on standard error or in the file of --report, follow the tier
and what the command did, one line each:

  created, edited, mode, deleted   files that would wait for your review
  generated, git                   ignored files and the state of git, as a whole
  dropped, note                    what can't be kept, and why

Nothing of it is kept; DIR stays as it is in any case. With --keep it waits for
a review, and the next command with --keep sees it: agent-tui review DIR."""

BOX_CODES = """\
exit codes:
  0-123   the command's own (also 126 not executable, 127 not found, and
          128 + N when signal N ended it)
  2       also: wrong arguments; nothing was started
  124     its time was over (--timeout)
  125     it was not run, or the box ended it: no such box here, no room, no state
  130     interrupted from the keyboard (Ctrl+C)"""

REVIEW_TEXT = """\
Show what waits for a review in DIR: what `agent-tui box run --keep` left, else
the last session with something pending. In a terminal this opens the screen on
the review; with --print, or when the output is no terminal, the changes are
printed as one unified diff, with what is kept beside it in lines that begin
with #."""

REVIEW_CODES = """\
exit codes:
  0   done (also when nothing waits)
  1   failed; the message says why
  2   wrong arguments
  4   something was left: a conflict, or protected and only accepted by its name"""


IMAGE_TEXT = """\
Keeps a picture or a PDF from standard input for a week and prints its path,
which can be pasted into the prompt. Over SSH, from your own machine:

  wl-paste -t image/png | ssh HOST agent-tui image
  xclip -selection clipboard -t image/png -o | ssh HOST agent-tui image
  pngpaste - | ssh HOST agent-tui image"""

PERMISSIONS_USAGE = "agent-tui permissions [DIR] [--remove ID | --remove all | --remove trust]"

PERMISSIONS_TEXT = """\
List whether DIR is trusted, the rules of your configuration, and what you
allowed or refused for good there, each with its id. --remove forgets one of
these, all of them, or that you trust the project."""


PLAN_USAGE = """\
agent-tui plan list [--json] [-C DIR]
       agent-tui plan show [FILE] [--json] [-C DIR]
       agent-tui plan check [FILE] [-C DIR]
       agent-tui plan set FILE TODO STATUS [--force] [-C DIR]"""

PLAN_TEXT = """\
The plans of a project, which are files in .cursor/plans. FILE is a path, the
name of a file there or its beginning; it may be left out where there is one.

  list    every plan with its progress
  show    one plan: its todos, which are ready and what the others wait for
  check   every fault of a plan file, with its line
  set     give a todo a status: pending, in_progress, completed or cancelled;
          one with a `verify` command is completed when that has passed, in the
          box, over what waits for a review. One that waits for others is not
          begun; --force completes it all the same"""

PLAN_CODES = """\
exit codes:
  0   done
  1   the plan has faults (check), the command of a todo did not pass (set), or
      it failed otherwise; the message says why
  2   wrong arguments"""

# By action: the fewest and the most words behind it, and how it is called.
PLAN_WORDS = {
    "list": (0, 0, "list [--json]"),
    "show": (0, 1, "show [FILE] [--json]"),
    "check": (0, 1, "check [FILE]"),
    "set": (3, 3, "set FILE TODO STATUS"),
}
PLAN_STATUSES = ("pending", "in_progress", "completed", "cancelled")


def plan_parser(make: type[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = _made(make, "agent-tui plan", PLAN_USAGE, PLAN_TEXT, PLAN_CODES)
    parser.add_argument("action", choices=tuple(PLAN_WORDS), metavar="ACTION", help="list, show, check or set")
    parser.add_argument("words", nargs="*", metavar="WORD", help="the file; with set also the todo and its status")
    parser.add_argument("--json", action="store_true", help="list and show: as JSON")
    parser.add_argument("--force", action="store_true", help="set: complete a todo that waits for others")
    parser.add_argument("-C", dest="directory", metavar="DIR", help="the project (default: the current directory)")
    return parser


MODELS_USAGE = "agent-tui models [DIR] [--json | --output-format FORMAT]"

MODELS_TEXT = """\
Show which model does what, as a session that began now would have it: the job,
the model, its effort and fallbacks, its window in tokens, and whether its price
is known. On the screen, /models shows what each has cost, too."""


def models_parser(make: type[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = _made(make, "agent-tui models", MODELS_USAGE, MODELS_TEXT, "")
    parser.add_argument("words", nargs="*", metavar="DIR", help="the project (default: the current directory)")
    parser.add_argument("--json", action="store_true", help="all of it, as JSON")
    parser.add_argument(
        "--output-format", choices=("text", "json"), default="text", metavar="FORMAT", help="text, json"
    )
    return parser


def image_parser(make: type[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    return _made(make, "agent-tui image", "agent-tui image < PICTURE", IMAGE_TEXT, "")


def permissions_parser(make: type[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = _made(make, "agent-tui permissions", PERMISSIONS_USAGE, PERMISSIONS_TEXT, "")
    parser.add_argument("words", nargs="*", metavar="DIR", help="the project (default: the current directory)")
    parser.add_argument("--remove", metavar="ID", help="an id, all, or trust")
    return parser


def box_parser(make: type[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = _made(make, "agent-tui box run", BOX_USAGE, BOX_TEXT, BOX_CODES)
    parser.add_argument("words", nargs="*", metavar="DIR COMMAND", help="the project, and the command in quotes")
    parser.add_argument(
        "--mode",
        choices=[mode.value for mode in Mode],
        default=Mode.AGENT.value,
        help="plan and ask keep nothing (default: agent)",
    )
    parser.add_argument("--tier", choices=TIERS, help="only this kind of box (default: the strongest there is)")
    parser.add_argument("--timeout", type=_seconds, default=600, metavar="SECONDS", help="default: 600")
    parser.add_argument("--report", metavar="FILE", help="what it did goes there (default: standard error)")
    parser.add_argument("--keep", action="store_true", help="let what it changes wait for a review")
    return parser


def review_parser(make: type[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    parser = _made(make, "agent-tui review", REVIEW_USAGE, REVIEW_TEXT, REVIEW_CODES)
    parser.add_argument("words", nargs="*", metavar="DIR", help="the project (default: the current directory)")
    parser.add_argument("--print", dest="print_only", action="store_true", help="print instead of opening the screen")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--accept", nargs="+", metavar="PATH", help="write these to the project; `all`: what is plain")
    which.add_argument("--reject", nargs="+", metavar="PATH", help="drop these; `all`: every change, but no bulk")
    return parser


def _made(make: type[argparse.ArgumentParser], prog: str, usage: str, text: str, codes: str) -> argparse.ArgumentParser:
    return make(
        prog=prog,
        usage=usage,
        description=text,
        epilog=codes,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _seconds(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of seconds") from None
    if value < 1:
        raise argparse.ArgumentTypeError("at least one second")
    return value
