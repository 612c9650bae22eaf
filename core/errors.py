"""The error tree: every failure that a user or a model may see.

`code` is a stable lower_snake_case word for machines; `message` gives the problem and its location; `hint` the remedy.
"""

from __future__ import annotations


class AgentTuiError(Exception):
    """Root of every error raised on purpose. `str(error)` is the message without the hint."""

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
        """Return message and hint in one line."""
        return f"{self.message} {self.hint}".rstrip()


class ConfigError(AgentTuiError, code="config_invalid"):
    """A configuration file, option or environment variable is wrong."""


class OutputFailed(AgentTuiError, code="output_failed"):
    """Standard output is unwritable: its disk is full, or its device is gone."""


class StateError(AgentTuiError, code="state_unusable"):
    """The state directory can't be read or written, or a log is damaged beyond its valid prefix."""


class ContentLost(AgentTuiError, code="content_lost"):
    """Stored bytes of a session are missing or damaged; its other content is unaffected."""


class PathRefused(AgentTuiError, code="path_refused"):
    """A path leads out of the workspace, is protected, or is of the wrong kind."""


class AttachmentRefused(AgentTuiError, code="attachment_refused"):
    """A file can't be attached as a picture or a PDF: it is neither, damaged, or too large."""


class MentionRefused(AgentTuiError, code="mention_unknown"):
    """A mention in a prompt matches nothing, or nothing that can be sent."""


class CommandRejected(AgentTuiError, code="command_rejected"):
    """A command of a client can't be executed in the current state; nothing was changed."""


class ReviewConflict(AgentTuiError, code="review_conflict"):
    """The file on disk is no longer the base of a change; nothing was written."""


class ProviderError(AgentTuiError, code="provider_failed"):
    """A model API failed. `retryable`: the same request may succeed later; `retry_after` in seconds."""

    def __init__(
        self, message: str, *, hint: str = "", code: str = "", retryable: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(message, hint=hint, code=code)
        self.retryable = retryable
        self.retry_after = retry_after


class ContextOverflow(ProviderError, code="context_overflow"):
    """The request is larger than the model's context window. `window`, `tokens`: of the model and of the request as the
    server counts them, 0 = it did not say so."""

    def __init__(self, message: str, *, hint: str = "", window: int = 0, tokens: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.window = window
        self.tokens = tokens


class ToolInputInvalid(AgentTuiError, code="tool_input_invalid"):
    """The arguments of a tool are invalid: the model can correct them."""


class ToolFailed(AgentTuiError, code="tool_failed"):
    """A tool could not do its work: the model has to adapt."""


class WebFailed(AgentTuiError, code="web_failed"):
    """A page or a search is unavailable; `code` tells the model the reason."""
