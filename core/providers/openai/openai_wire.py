"""The common part of OpenAI's two protocols: variable options, and messages with pictures and PDFs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from core.protocol.attachment_labels import PDF_MEDIA_TYPE
from core.protocol.messages import Attachment
from core.providers.base import ModelRequest
from core.providers.catalog.capabilities import Capabilities
from core.providers.wire.request_bytes import Wire
from core.providers.wire.wire_values import clean

Item = dict[str, Any]


class OpenAIWire(Wire):
    """Writer of one request. `text_type`: the type of a text part next to attachments."""

    text_type: ClassVar[str]

    def __init__(self, request: ModelRequest, *, provider: str, capabilities: Capabilities) -> None:
        super().__init__(request, provider=provider)
        self._capabilities = capabilities

    @abstractmethod
    def tail(self) -> Item:
        """Return the options, which may vary from request to request."""

    @abstractmethod
    def _build_file(self, name: str, url: str) -> Item: ...

    @abstractmethod
    def _build_picture(self, url: str) -> Item: ...

    def _encode_content(self, text: str, attachments: Sequence[Attachment]) -> str | list[Item]:
        if not attachments:
            return clean(text)
        text_items = [{"type": self.text_type, "text": clean(text)}] if text.strip() else []
        return [*text_items, *map(self._encode_attachment, attachments)]

    def _encode_attachment(self, attachment: Attachment) -> Item:
        url = f"data:{attachment.media_type};base64,{self._encode_base64(attachment)}"
        if attachment.media_type == PDF_MEDIA_TYPE:
            return self._build_file(attachment.name or "document.pdf", url)
        return self._build_picture(url)
