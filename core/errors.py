"""The one error tree: every failure that a user or a model may see.

`code` is a stable lower_snake_case word for machines; `message` says what was wrong and where; `hint` what to do.
"""

from __future__ import annotations


class AgentTuiError(Exception):
    """Root of every error raised on purpose. `str(error)` is the message; the hint is kept apart."""

    code = "internal"

    def __init_subclass__(cls, *, code: str = "") -> None:
        cls.code = code or cls.code

    def __init__(self, message: str, *, hint: str = "", code: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if code:
            self.code = code

    def format_with_hint(self) -> str:
        """Return message and hint as one text, for places that have only one line."""
        return f"{self.message} {self.hint}".rstrip()


class ConfigError(AgentTuiError, code="config_invalid"):
    """A configuration file, option or environment variable is wrong."""


class OutputFailed(AgentTuiError, code="output_failed"):
    """Standard output takes no more: its disk is full, or its device gone."""


class StateError(AgentTuiError, code="state_unusable"):
    """The state directory can't be read or written, or a log is damaged beyond its valid prefix."""


class ContentLost(AgentTuiError, code="content_lost"):
    """Bytes that a session has stored are gone or damaged; what else it has stored is not concerned."""


class PathRefused(AgentTuiError, code="path_refused"):
    """A path leads out of the workspace, is protected, or is not of the kind that was asked for."""


class AttachmentRefused(AgentTuiError, code="attachment_refused"):
    """A file can't go with a message as a picture or a PDF: it is none, it is damaged, or it is too large."""


class MentionRefused(AgentTuiError, code="mention_unknown"):
    """A mention in a prompt stands for nothing, or for nothing that can be sent."""


class CommandRejected(AgentTuiError, code="command_rejected"):
    """A command of a client can't be carried out in the present state; nothing was changed."""


class ReviewConflict(AgentTuiError, code="review_conflict"):
    """The file on disk is no longer the one that a change was made from; nothing was written."""


class ProviderError(AgentTuiError, code="provider_failed"):
    """A model API failed. `retryable` says whether the same request may succeed later; `retry_after` in seconds."""

    def __init__(
        self, message: str, *, hint: str = "", code: str = "", retryable: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(message, hint=hint, code=code)
        self.retryable = retryable
        self.retry_after = retry_after


class ContextOverflow(ProviderError, code="context_overflow"):
    """The request is larger than the model's context window."""


class ToolInputInvalid(AgentTuiError, code="tool_input_invalid"):
    """A tool's arguments are wrong: the model can call again, corrected."""


class ToolFailed(AgentTuiError, code="tool_failed"):
    """A tool could not do its work: the model has to adapt."""


class WebFailed(AgentTuiError, code="web_failed"):
    """A page or a search could not be had; `code` says why in a word that a model can act on."""
