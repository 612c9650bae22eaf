"""Memory of a session's models: the news that they were told, the files they read, and the setup of requests."""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec import Struct, field

from core.agent.base.budget import TurnBudget
from core.agent.context.prefix import PromptSetup, PromptVariants
from core.agent.context.token_meter import TokenMeter
from core.config.settings import TurnLimits
from core.protocol.messages import Attachment


class SteerContext(Struct, frozen=True):
    """Context of a message to the running turn: the text that shows it, and its pictures and PDFs."""

    text: str
    attachments: tuple[Attachment, ...] = ()


class ModelMemory(Struct, kw_only=True):
    """The knowledge of a session's models, kept from turn to turn.

    `read_digests`: by path, the digest of the content that the model last read or wrote. `announced`: what it was last
    told of things that are only repeated when they change.
    `paths_at_hand`: the files that rules were chosen for last; `are_rules_due`: the model may have lost some since.
    `stand_ins`: text that a model is sent in place of an attachment, "" = the attachment, see `sent_attachments`.
    `compacted_tokens`: of the history after compaction. `setup`: see `load_setup`; `dialect_setups`: parts of it;
    `known_setup`: what it returned last, and what for.
    `steer_context`: what goes with messages to the running turn, by their ids.
    `foreground_job`: the command that goes on in the terminal of a model that has only one, "" = none.
    `answered_routes`: ids of routes at which a model has answered. `budget`: of the turn that runs or ran last.
    """

    variants: PromptVariants
    read_digests: dict[str, str] = field(default_factory=dict)
    announced: dict[str, str] = field(default_factory=dict)
    paths_at_hand: tuple[str, ...] = ()
    are_rules_due: bool = False
    stand_ins: dict[str, str] = field(default_factory=dict)
    meter: TokenMeter = field(default_factory=TokenMeter)
    compacted_tokens: int = 0
    setup: asyncio.Future[PromptSetup] | None = None
    dialect_setups: dict[str, dict[str, object]] = field(default_factory=dict)
    known_setup: tuple[tuple[object, ...], PromptSetup] | None = None
    foreground_job: str = ""
    steer_context: dict[str, SteerContext] = field(default_factory=dict)
    answered_routes: set[str] = field(default_factory=set)
    budget: TurnBudget = field(default_factory=lambda: TurnBudget(TurnLimits))

    @classmethod
    def of_session(cls, directory: Path) -> ModelMemory:
        """Return the memory of a session that begins or is resumed; `directory`: the session's own."""
        return cls(variants=PromptVariants(directory))

    def forget(self) -> None:
        """Forget what was told, read and counted: the conversation is another one now."""
        self.read_digests.clear()
        self.announced.clear()
        self.meter.reset()
        self.compacted_tokens = 0
