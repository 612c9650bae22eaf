"""Modes and options of a session. ACP has the mode twice: in `modes` and in `configOptions`.

Both are built from the session's state, so they can't differ, and both survive the session. The log has the last review
policy, but the user must allow accepting everything unasked at every start.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from msgspec import Struct

from core.acp.agent_methods import SessionMode, SessionModeState
from core.acp.client_methods import SessionConfigOption, SessionConfigSelectOption
from core.acp.connection import INVALID_PARAMS, AcpError
from core.modes import Mode
from core.protocol import commands as cmd
from core.protocol import queries as q
from core.protocol.choices import Effort
from core.protocol.client import Client
from core.protocol.review import ReviewPolicy
from core.records import convert
from core.state.session import SessionState

DEFAULT: Final = "default"  # the model's own effort
_MODES: Final = {
    Mode.AGENT: ("Agent", "Edits and runs commands in the shadow; your files are untouched until you accept."),
    Mode.PLAN: ("Plan", "Reads, runs and asks; its changes are dropped. Ends in a plan."),
    Mode.ASK: ("Ask", "Answers questions; changes of its commands are dropped."),
    Mode.DEBUG: ("Debug", "Finds a fault with hypotheses and probes, and fixes it on evidence."),
}
_AT_ONCE: Final = {Mode.AGENT: ("Agent", "Edits and runs commands; its edits are written to your files at once.")}
_REVIEWS: Final[dict[ReviewPolicy, tuple[str, str]]] = {
    "end": ("File by file", "At the end of a turn you review each changed file."),
    "each": ("Hunk by hunk", "At the end of a turn you review each hunk."),
    "later": ("Later", "You are not asked: use /review or agent-tui review."),
    "auto-accept": ("Accept all", "Unprotected changes are written to your files at the end of a turn."),
}


class OfferedModels(Struct, frozen=True):
    """The available choices: ids of models, and the efforts of the session's model."""

    models: tuple[str, ...] = ()
    efforts: tuple[str, ...] = ()


async def load_offers(client: Client, session: str) -> OfferedModels:
    """Load the available choices. Lists that can't be loaded are left out."""
    models = await client.query(q.ModelsQuery(session=session, discover=False))
    routes = await client.query(q.RoutesQuery(session=session))
    ids = tuple(model.id for model in models.models) if isinstance(models, q.ModelsAnswer) else ()
    rows = routes.rows if isinstance(routes, q.RoutesAnswer) else ()
    efforts = next((row.efforts for row in rows if row.job == "chat" and not row.mode), ())
    return OfferedModels(ids, efforts)


def build_modes(state: SessionState) -> SessionModeState:
    """Build the modes, with the current one."""
    modes = (SessionMode(id=mode.value, name=name, description=text) for mode, (name, text) in _MODES.items())
    return SessionModeState(current_mode_id=state.mode, available_modes=tuple(modes))


def build_options(
    state: SessionState, offers: OfferedModels, review: ReviewPolicy, *, can_accept: bool
) -> tuple[SessionConfigOption, ...]:
    """Build all options. `can_accept`: the user let the client accept edits without asking."""
    models = dict.fromkeys((state.model, *offers.models))
    models.pop("", None)
    effort = state.model_choices.effort or DEFAULT
    efforts = dict.fromkeys((DEFAULT, *offers.efforts, effort))
    reviews = [policy for policy in _REVIEWS if policy != "auto-accept" or can_accept]
    modes = _MODES | (_AT_ONCE if state.accepts_at_once else {})
    options = [_build_option("mode", "Mode", "mode", state.mode, [(m.value, *texts) for m, texts in modes.items()])]
    if models:
        options.append(_build_option("model", "Model", "model", state.model, [(model, model, "") for model in models]))
    options.append(
        _build_option("thought_level", "Effort", "thought_level", effort, [(e, e.capitalize(), "") for e in efforts])
    )
    options.append(
        _build_option("review", "Review", "_review", review, [(policy, *_REVIEWS[policy]) for policy in reviews])
    )
    return tuple(options)


def _build_option(
    identity: str, name: str, category: str, current: str, values: list[tuple[str, str, str]]
) -> SessionConfigOption:
    options = tuple(
        SessionConfigSelectOption(value=value, name=label, description=text or None) for value, label, text in values
    )
    return SessionConfigOption(id=identity, name=name, category=category, current_value=current, options=options)


def build_change(session: str, option: str, value: str) -> cmd.AnyCommand:
    """Build the command that sets an option of the engine. Raises `AcpError` for an unknown option or value."""
    if option == "mode" and value in {mode.value for mode in Mode}:
        return cmd.ModeSet(session=session, mode=value)
    if option == "model":
        return cmd.ModelSet(session=session, model=value)
    if option == "thought_level" and (value == DEFAULT or value in get_args(Effort)):
        return cmd.EffortSet(session=session, effort=convert("" if value == DEFAULT else value, Effort | Literal[""]))
    raise AcpError(f"there is no option {option!r} with the value {value!r}", number=INVALID_PARAMS)


def recall_review(state: SessionState, otherwise: ReviewPolicy, *, can_accept: bool) -> ReviewPolicy:
    """Return the review policy that was chosen in a session, if the user still allows it; else `otherwise`."""
    try:
        return parse_review(state.review_policy, can_accept=can_accept)
    except AcpError:
        return otherwise


def parse_review(value: str, *, can_accept: bool) -> ReviewPolicy:
    """Parse a review policy. Raises `AcpError` for an unknown one, and for one that the user did not allow."""
    for policy in _REVIEWS:
        if policy == value and (can_accept or value != "auto-accept"):
            return policy
    hint = "; start agent-tui acp --auto-accept to allow it" if value == "auto-accept" else ""
    raise AcpError(f"edits can't be reviewed by {value!r}{hint}", number=INVALID_PARAMS)
