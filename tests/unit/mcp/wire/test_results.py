"""Answers of servers as the model gets them, whatever they are made of."""

from __future__ import annotations

import base64
import io

from PIL import Image

from core.mcp.wire.results import render_answer
from core.mcp.wire.sdk_connection import CallAnswer, ContentBlock


def draw_picture() -> str:
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4), "red").save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


async def test_a_picture_is_attached_also_where_it_is_an_embedded_resource(tmp_path):
    embedded = {"uri": "demo://dot", "mimeType": "image/png", "blob": draw_picture()}
    blocks = [ContentBlock(type="image", data=draw_picture()), ContentBlock(type="resource", resource=embedded)]
    answer = await render_answer(CallAnswer(content=blocks), tmp_path, "call")
    assert [attachment.attachment.media_type for attachment in answer.attachments] == ["image/png"] * 2
    assert answer.text == ""


async def test_what_can_not_be_shown_is_said_in_its_place(tmp_path):
    blocks = [
        ContentBlock(type="image", data="no base64", mime_type="image/png"),
        ContentBlock(type="audio", data="AAAA", mime_type="audio/wav"),
        ContentBlock(type="resource", resource={"uri": "demo://zip", "blob": "AAAA"}),
        ContentBlock(type="resource", resource={"uri": "demo://text", "text": "its \x1b[31mtext"}),
        ContentBlock(type="resource_link", uri="demo://link"),
        ContentBlock(type="of tomorrow"),
    ]
    answer = await render_answer(CallAnswer(content=blocks), tmp_path, "call")
    assert answer.text.splitlines() == [
        "[image, image/png, 6 bytes: it can't be shown here]",
        "[audio, audio/wav, 3 bytes: it can't be shown here]",
        "[A resource that is not text: demo://zip]",
        "its text",
        "[A resource: demo://link]",
        "[of tomorrow, of unknown type, 0 bytes: it can't be shown here]",
    ]


async def test_structured_content_alone_is_shown_as_json(tmp_path):
    answer = await render_answer(CallAnswer(structured_content={"a": [1, "é"]}), tmp_path, "call")
    assert answer.text == '{"a": [1, "é"]}'
