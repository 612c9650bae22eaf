"""The part of a request that OpenAI's two protocols share: what may vary, and messages with pictures and PDFs."""

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
    """Writes one request. `text_type`: the type of a text that stands beside attachments."""

    text_type: ClassVar[str]

    def __init__(self, request: ModelRequest, *, provider: str, capabilities: Capabilities) -> None:
        super().__init__(request, provider=provider)
        self._capabilities = capabilities

    @abstractmethod
    def tail(self) -> Item:
        """The options, which may vary from request to request."""

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
