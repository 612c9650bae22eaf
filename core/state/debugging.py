"""Debugging in the session's state: hypotheses, the probes in place, the recorded runs.

No probe outlives its turn or Debug mode: the end of either drops all of them here, whatever else was recorded.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from core.protocol import events as ev
from core.protocol.debug import Hypothesis, Probe, ProbeRun
from core.protocol.review import FileState


@dataclass(slots=True)
class DebugState:
    """Debugging of a session: `hypotheses`, `probes` and `runs` by id, in order.

    `fixes`: files changed since a hypothesis was confirmed, with their pending state before that (None: no change);
    `is_fix_accepted`: one of them is in the project. `fix_run` is the latest run with the whole fix, `fix_verdict` the
    user's verdict on it. `probed_paths`: files that ever had a probe; `needs_probe_check`: a probe was added since the
    last search for marks. `reproduction`: the one that has not ended. The counts number new ids; `checkpoints` holds
    the hypotheses at every checkpoint.
    """

    hypotheses: dict[str, Hypothesis] = field(default_factory=dict)
    probes: dict[str, Probe] = field(default_factory=dict)
    runs: dict[str, ProbeRun] = field(default_factory=dict)
    fixes: dict[str, FileState | None] = field(default_factory=dict)
    is_fix_accepted: bool = False
    fix_run: str = ""
    fix_verdict: ev.FixJudged | None = None
    probed_paths: dict[str, None] = field(default_factory=dict)
    needs_probe_check: bool = False
    reproduction: ev.ReproduceRequested | None = None
    probe_count: int = 0
    run_count: int = 0
    checkpoints: dict[str, dict[str, Hypothesis]] = field(default_factory=dict)

    @property
    def has_confirmed_cause(self) -> bool:
        """True if a cause is confirmed, so that it may be fixed. A fix that did not help refutes it."""
        is_refuted = self.fix_verdict is not None and self.fix_verdict.outcome == "broken"
        return not is_refuted and any(hypothesis.state == "confirmed" for hypothesis in self.hypotheses.values())

    @property
    def has_fix(self) -> bool:
        """True if a change was made on evidence."""
        is_fixed = self.fix_verdict is not None and self.fix_verdict.outcome == "fixed"
        return bool(self.fixes) or self.is_fix_accepted or is_fixed

    @property
    def awaits_fix_verdict(self) -> bool:
        """True if a run has tested the fix and the user has not judged it."""
        fix_verdict = self.fix_verdict
        return bool(self.fix_run) and (
            fix_verdict is None or (fix_verdict.outcome == "unsure" and fix_verdict.run != self.fix_run)
        )

    def reset_fix(self) -> None:
        """Forget the fix."""
        self.fixes, self.is_fix_accepted, self.fix_run, self.fix_verdict = {}, False, "", None

    def drop_probes(self) -> None:
        """End debugging, with the turn or the mode."""
        self.probes, self.reproduction = {}, None
