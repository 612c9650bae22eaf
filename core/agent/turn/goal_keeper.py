"""The goal of a session: a check of the program decides whether it holds, never the model that works on it.

A check runs when the agent would end its turn. A command is run over the shadow, in the project's root and with a fresh
environment, and its effects are dropped. "Every code hunk checked" is decided by a proof. Else, without a command, a
model judges that sees the changes and the results of
commands, but not the conversation. A round in which neither the failure nor the changes moved ends the goal, and so
does its limit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from core.agent.base.prompt_tags import escape_tags
from core.agent.context.reminders import append_reminder
from core.agent.context.turn_context import TurnContext
from core.errors import AgentTuiError
from core.patterns import compile_lazily
from core.prompts import render
from core.protocol.events import GoalChecked, GoalEnded, GoalOutcome
from core.protocol.messages import UserMessage
from core.protocol.renames import list_changes
from core.sandbox.results import describe_end
from core.secrets import mask_secrets
from core.shell.long_output import shorten_middle
from core.state.checks import find_run_counts
from core.state.goals import GoalState, is_proof_goal, list_rounds
from core.state.proof import Word
from core.state.proof_text import list_proof_rows
from core.text.counting import count

CHECK_SECONDS: Final = 600.0
MAX_CHECK_OUTPUT: Final = 2_000_000  # characters that are kept of a check's output
MAX_SHOWN: Final = 6_000  # characters of its end that the model gets
MAX_DIFF: Final = 60_000  # characters of the changes that are judged
_DIFF_LINES: Final = 400
_MARKS: Final = {"added": "+", "removed": "-"}
_VARIES: Final = compile_lazily(r"0x[0-9a-f]+|\d+")  # times, addresses and counters
_VERDICT: Final = compile_lazily(r"\W*(?P<word>MET|UNMET)\b[\s:.*–—-]*(?P<rest>[^\n]*)")
_UNCHECKED: Final = frozenset[Word](
    {"fails", "proves_nothing", "weakened", "changed", "never_ran", "unnoticed", "used", "unknown"}
)
NO_BOX: Final = "Commands can't be sandboxed on this machine, so the check can't be run."
NO_VERDICT: Final = "The model that judges gave no verdict."


class GoalCheck(Struct, frozen=True):
    """The result of one check: a line, and the details for the model that goes on."""

    outcome: GoalOutcome
    summary: str
    output: str = ""


def render_changes(context: TurnContext) -> Iterator[str]:
    """Yield every pending change with its diff, which is cut after some hundred lines, for a model."""
    shadow = context.terminal.host.shadow
    for path, change in sorted(context.state.changes.items()):
        diff = shadow.diff(path, context=2)
        lines = diff.lines[:_DIFF_LINES] if diff is not None else ()
        text = "\n".join(f"{_MARKS.get(line.kind, ' ')}{line.text}" for line in lines)
        yield mask_secrets(f"{path} ({change.operation}, +{change.added} -{change.removed})\n{text}")


class GoalKeeper(Struct, eq=False):
    """Keeps a turn at work until the goal of its session is met, or can't be."""

    _context: TurnContext

    async def should_continue(self, text: str) -> bool:
        """Check the goal after an answer without calls; True if the turn goes on for it. `text`: the answer. One that
        asks the user something ends the turn; the goal then waits for the answer."""
        context, goal = self._context, self._context.state.goal
        if goal is None or goal.reason or context.permissions.subagent_limits is not None:
            return False
        if context.user.is_interactive and text.rstrip().endswith("?"):
            return False
        check = await self._check(goal)
        digest = self._digest(check)
        is_same = bool(goal.rounds) and goal.rounds[-1].digest == digest
        context.emit(
            GoalChecked(
                round=len(goal.rounds) + 1,
                outcome=check.outcome,
                summary=check.summary,
                output=check.output,
                digest=digest,
            )
        )
        if check.outcome == "met":
            context.emit(GoalEnded(reason="met", message="The goal is met."))
        elif is_same:
            context.emit(GoalEnded(reason="stalled", message=f"Nothing moved in the last round. {list_rounds(goal)}"))
        elif len(goal.rounds) >= goal.max_rounds:
            context.emit(GoalEnded(reason="limit", message=f"The limit of rounds is reached. {list_rounds(goal)}"))
        else:
            self._report(goal, check)
            return True
        return False

    def _report(self, goal: GoalState, check: GoalCheck) -> None:
        reminder = render(
            "reminders/goal_unmet",
            condition=escape_tags(goal.condition),
            command=escape_tags(goal.check),
            round=len(goal.rounds),
            most=goal.max_rounds,
            summary=escape_tags(check.summary),
            output=escape_tags(check.output),
            attended=self._context.user.is_interactive,
        )
        append_reminder(self._context.emit, reminder)

    async def _check(self, goal: GoalState) -> GoalCheck:
        try:
            if is_proof_goal(goal.condition) and not goal.check:
                return await self._prove()
            return await self._run_command(goal.check) if goal.check else await self._judge(goal)
        except AgentTuiError as problem:
            return GoalCheck("unclear", problem.format_with_hint().rstrip("."))

    async def _prove(self) -> GoalCheck:
        """Have the program run the check without each hunk of code; every one has to be noticed by an assertion."""
        reason = await self._context.prove()
        review = self._context.state.review
        rows = list_proof_rows(review.proof, list_changes(review.changes))
        open_rows = [row for row in rows if row.judgement.word in _UNCHECKED]
        if any(row.judgement.word == "unknown" for row in open_rows) or (reason and not open_rows):
            return GoalCheck("unclear", reason.rstrip(".") or "Some hunks were not looked into")
        if not open_rows:
            return GoalCheck("met", "every hunk of code is checked by a test")
        lines = "\n".join(row.format() for row in open_rows)
        return GoalCheck("unmet", f"{count('hunk', len(open_rows))} not checked", shorten_middle(lines, MAX_SHOWN))

    async def _run_command(self, command: str) -> GoalCheck:
        """Run the check over the shadow, without what the agent has set in its shell."""
        terminal = self._context.terminal
        box = await terminal.host.box.find()
        if box is None:
            return GoalCheck("unclear", NO_BOX.rstrip("."))
        lowers = terminal.host.shadow.prepare_lowers()
        box_result, output, _ = await terminal.run_passing(
            box, command, lowers=lowers, cwd=".", seconds=CHECK_SECONDS, max_output=MAX_CHECK_OUTPUT
        )
        output = mask_secrets(output).strip()
        counts = find_run_counts(output, box_result.exit_code or 0)
        end = counts.format() if counts is not None else describe_end(box_result.exit_code, box_result.end_reason)
        has_passed = box_result.exit_code == 0 and (counts is None or (counts.passed > 0 and not counts.failed))
        excerpt = "" if has_passed else shorten_middle(output, MAX_SHOWN)
        return GoalCheck("met" if has_passed else "unmet", f"`{command}`: {end}", excerpt)

    async def _judge(self, goal: GoalState) -> GoalCheck:
        """Let a model judge that sees the condition, the changes and the results of commands alone."""
        side = self._context.build_side_requests()
        request = UserMessage(
            content=render(
                "goal_judgement",
                condition=escape_tags(goal.condition),
                changes=escape_tags(shorten_middle("\n\n".join(render_changes(self._context)), MAX_DIFF)),
                checks=[escape_tags(line) for line in self._list_checks()],
            )
        )
        route = replace(side.routes.current, effort="")
        answer = await side.ask("small", route, render("goal_judge"), [request])
        match = _VERDICT.match(answer.strip())
        if match is None:
            return GoalCheck("unclear", NO_VERDICT.rstrip("."), shorten_middle(answer.strip(), MAX_SHOWN))
        reason = match["rest"].strip().rstrip(".") or "it gave no reason"
        return GoalCheck(
            "met" if match["word"] == "MET" else "unmet", reason, shorten_middle(answer.strip(), MAX_SHOWN)
        )

    def _list_checks(self) -> list[str]:
        turns = self._context.state.turns[-1:]
        return [
            f"{command}: exit code {check.exit_code}{f', {check.told}' if check.told else ''}"
            for turn in turns
            for command, check in turn.checks.items()
        ]

    def _digest(self, check: GoalCheck) -> str:
        """Return a digest of the failure and the pending changes, without what differs from run to run."""
        failure = _VARIES.sub("0", f"{check.outcome}{check.summary}{check.output}")
        changes = sorted((path, repr(change.pending)) for path, change in self._context.state.changes.items())
        return hashlib.sha256(repr((failure, changes)).encode("utf-8", "replace")).hexdigest()[:16]
