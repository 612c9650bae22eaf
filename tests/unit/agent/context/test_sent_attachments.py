from __future__ import annotations

from core.agent.context.sent_attachments import format_placeholder
from core.protocol.messages import Attachment


def test_in_the_place_of_a_picture_stands_what_it_was():
    attachment = Attachment(digest="", media_type="image/png", name="a.png", size=2_000, width=3, height=4)
    assert format_placeholder(attachment) == "[image a.png, 3×4 png 2.0 kB: not shown, this model accepts no pictures]"
