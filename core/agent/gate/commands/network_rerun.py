"""The question after a run that was refused hosts: shall the command reach them and be run again?

It is asked while what the run did is still held back. A yes drops all of that, so that the command begins where it
began before: in the same directory, with the same variables, over the same files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from core.agent.gate.approvals import Approver
from core.agent.gate.gated_call import CallStopped, GatedCall
from core.permissions.approval import Approval

MAX_RERUNS: Final = 3  # times that a command is run again for hosts it had not wanted before
RUN_AGAIN: Final = "[Run again, with the network to {}; nothing of the run before is kept.]\n"
MOVED: Final = "It was not run again: the mode, the directory or the environment changed while the user was asked."


class NetworkRerun(Struct, eq=False):
    """The reruns of one call. `check_granted` raises `CallStopped` if the mode no longer grants the call."""

    approver: Approver
    call: GatedCall
    check_granted: Callable[[GatedCall], None]
    reached: list[str] = field(default_factory=list)
    refusal: str = ""

    async def should_run_again(self) -> bool:
        """Ask about hosts that were refused to the run that has just ended. True: they are granted to the next one."""
        permissions, call = self.approver.permissions, self.call
        grants = permissions.network_grants
        targets = tuple(target for target in grants.pop_refused() if grants.can_be_asked(target.host))
        if not targets or self.refusal or len(self.reached) >= MAX_RERUNS:
            return False
        before, target_names = self._build_approval(), ", ".join(map(str, targets))
        if not await self.approver.ask_for_network(call.request.id, call.subject, targets):
            self.refusal = f"It wanted the network: {target_names}. It was not allowed to."
            return False
        if reason := self._explain_change(before):
            self.refusal = reason
            return False
        call.hosts += tuple(target.host for target in targets)
        call.approval = permissions.build_approval(call.subject, call.approval.permissions)
        self.reached.append(target_names)
        return True

    def _build_approval(self) -> Approval:
        return self.approver.permissions.build_approval(self.call.subject, self.call.approval.permissions)

    def _explain_change(self, before: Approval) -> str:
        """Explain why a yes no longer holds: all but the network has to be as it was when the user was asked."""
        try:
            self.check_granted(self.call)
        except CallStopped as stopped:
            return stopped.text
        return "" if self._build_approval().has_same_ground(before) else MOVED

    def format_result(self, text: str) -> str:
        """Return the result of the last run, with what the model has to know of those before it."""
        if self.reached:
            text = RUN_AGAIN.format(", ".join(self.reached)) + text
        return f"{text}\n[{self.refusal}]" if self.refusal else text
