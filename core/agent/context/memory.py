"""Memory of a session's models: the announcements they got, the files they read, and the setup of requests."""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec import Struct, field

from core.agent.base.budget import NO_LIMITS, TurnBudget
from core.agent.context.prefix import PromptSetup, PromptVariants
from core.agent.context.token_meter import TokenMeter
from core.config.settings import TurnLimits
from core.protocol.messages import Attachment


class SteerContext(Struct, frozen=True):
    """Context of a message to the running turn: its text for the model, and its pictures and PDFs."""

    text: str
    attachments: tuple[Attachment, ...] = ()


class ModelMemory(Struct, kw_only=True):
    """The knowledge of a session's models, which outlives a turn.

    `read_digests`: by path, the digest of the content that the model last read or wrote. `edits`: by path, the digests
    before and after each of its last edits. `announced`: by topic, the latest text of facts that are repeated only when
    they change. `relevant_paths`: the files for which rules were chosen last; `are_rules_due`: the model may have lost
    some since. `stand_ins`: text that replaces an attachment, "" = the attachment itself, see `sent_attachments`.
    `compacted_tokens`: size of the history after the last compaction. `is_above_step`: the last request was above the
    model's price step. `setup`: see `load_setup`; `dialect_setups`: parts of it; `known_setup`: its last key and
    result. `steer_context`: the context of messages to the running turn, by their ids. `foreground_job`: the id of the
    command that occupies the only terminal of a model, "" = none. `answered_routes`: ids of routes at which a model has
    answered. `sent_efforts`: by route, the effort of the last request. `cached_at`: when the API has last read
    the history (ms since 1970), 0 = not in this program. `budget`: that of the running or the last turn.
    """

    variants: PromptVariants
    read_digests: dict[str, str] = field(default_factory=dict)
    edits: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    announced: dict[str, str] = field(default_factory=dict)
    relevant_paths: tuple[str, ...] = ()
    are_rules_due: bool = False
    stand_ins: dict[str, str] = field(default_factory=dict)
    meter: TokenMeter = field(default_factory=TokenMeter)
    compacted_tokens: int = 0
    is_above_step: bool = False
    setup: asyncio.Future[PromptSetup] | None = None
    dialect_setups: dict[str, dict[str, object]] = field(default_factory=dict)
    known_setup: tuple[tuple[object, ...], PromptSetup] | None = None
    foreground_job: str = ""
    steer_context: dict[str, SteerContext] = field(default_factory=dict)
    answered_routes: set[str] = field(default_factory=set)
    sent_efforts: dict[str, str] = field(default_factory=dict)
    cached_at: int = 0
    budget: TurnBudget = field(default_factory=lambda: TurnBudget(TurnLimits))
    template_limits: TurnLimits = NO_LIMITS

    @classmethod
    def of_session(cls, directory: Path) -> ModelMemory:
        """Build the memory of a new or resumed session. `directory`: the session's directory."""
        return cls(variants=PromptVariants(directory))

    def forget(self) -> None:
        """Forget announcements, read files and token counts: the conversation was replaced."""
        self.read_digests.clear()
        self.edits.clear()
        self.announced.clear()
        self.meter.reset()
        self.compacted_tokens = 0
