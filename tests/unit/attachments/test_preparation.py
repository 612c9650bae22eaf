from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from core.attachments.pictures import MAX_BYTES, render_preview
from core.attachments.preparation import prepare_attachment, read_pdf_facts
from core.attachments.signature import SNIFF_BYTES, detect_media_type
from core.errors import AttachmentRefused
from core.protocol.attachment_labels import (
    LABEL_PATTERN,
    describe_attachment,
    find_attachments,
    format_label,
    strip_labels,
)
from core.protocol.messages import Attachment
from tests.support.pictures import bomb, dot, noise, opened, pdf, picture

needs_pypdf = pytest.mark.skipif(importlib.util.find_spec("pypdf") is None, reason="pypdf is not installed here")
KINDS = {
    "PNG": "image/png",
    "JPEG": "image/jpeg",
    "GIF": "image/gif",
    "WEBP": "image/webp",
    "BMP": "image/bmp",
    "TIFF": "image/tiff",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_is_known_by_its_first_bytes(kind):
    data = picture(8, 8, kind)
    assert detect_media_type(data) == detect_media_type(data[:SNIFF_BYTES]) == KINDS[kind]


@given(st.binary(max_size=64))
def test_any_bytes_have_a_type_that_their_head_decides(data):
    assert detect_media_type(data) == detect_media_type(data[:SNIFF_BYTES])


@given(st.text(max_size=40))
def test_words_are_no_picture(text):
    data = text.encode("utf-8", "replace")
    assert detect_media_type(data) == "" or data.startswith((b"%PDF-", b"GIF8", b"RIFF", b"BM"))


def test_a_picture_of_a_few_bytes_is_a_picture_though_no_nul_is_in_sight():
    assert prepare_attachment(dot()).attachment.media_type == "image/gif"
    assert detect_media_type(b"GIF89a\x01") == "image/gif"
    assert detect_media_type(b"BMW is a car, and this is a sentence") == ""


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_what_is_small_and_clean_goes_byte_for_byte(kind):
    data = picture(640, 480, kind)
    prepared_attachment = prepare_attachment(data, "shot")
    assert prepared_attachment.data == data
    assert prepared_attachment.note == ""
    assert prepared_attachment.attachment == Attachment(
        digest=hashlib.sha256(data).hexdigest(),
        media_type=KINDS[kind],
        name="shot",
        size=len(data),
        width=640,
        height=480,
    )


@pytest.mark.parametrize("kind", ["BMP", "TIFF", "ICO"])
def test_what_no_model_takes_becomes_a_png_with_the_same_pixels(kind):
    data = picture(48, 32, kind)
    prepared_attachment = prepare_attachment(data)
    assert prepared_attachment.attachment.media_type == "image/png"
    assert opened(prepared_attachment.data).convert("RGB").tobytes() == opened(data).convert("RGB").tobytes()


@pytest.mark.parametrize(("kind", "sent"), [("PNG", "image/png"), ("JPEG", "image/jpeg"), ("WEBP", "image/png")])
def test_a_large_picture_is_scaled_to_what_models_see(kind, sent):
    prepared_attachment = prepare_attachment(picture(3000, 1200, kind))
    assert (
        (prepared_attachment.attachment.width, prepared_attachment.attachment.height)
        == opened(prepared_attachment.data).size
        == (1568, 627)
    )
    assert prepared_attachment.attachment.media_type == sent
    assert prepared_attachment.note == "scaled down from 3000×1200"


def test_a_screenshot_that_does_not_compress_is_sent_as_a_photograph():
    prepared_attachment = prepare_attachment(noise(1500, 1400))
    assert len(prepared_attachment.data) <= MAX_BYTES
    assert prepared_attachment.attachment.media_type == "image/jpeg"
    assert (prepared_attachment.attachment.width, prepared_attachment.attachment.height) == (1500, 1400)


def test_what_a_camera_wrote_is_left_out_and_the_picture_is_upright():
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "Maker of cameras"
    prepared_attachment = prepare_attachment(picture(80, 40, "JPEG", exif=exif))
    assert (prepared_attachment.attachment.width, prepared_attachment.attachment.height) == (40, 80)
    assert b"Maker" not in prepared_attachment.data
    assert not opened(prepared_attachment.data).getexif()


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_exif_of_other_formats_is_left_out_too(kind):
    exif = Image.Exif()
    exif[0x010F] = "Maker of cameras"
    data = picture(80, 40, kind, exif=exif)
    assert b"Maker" in data
    assert b"Maker" not in prepare_attachment(data).data


def test_of_pictures_that_move_the_first_is_sent():
    frames = [Image.new("RGB", (20, 20), colour) for colour in ("red", "green", "blue")]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:])
    prepared_attachment = prepare_attachment(buffer.getvalue())
    assert (prepared_attachment.attachment.media_type, prepared_attachment.note) == ("image/png", "its first frame")
    assert opened(prepared_attachment.data).convert("RGB").getpixel((3, 3)) == (255, 0, 0)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "I;16", "CMYK"])
def test_every_mode_of_pixels_can_be_sent(mode):
    kind = "TIFF" if mode in {"CMYK", "I;16"} else "PNG"
    data = picture(2000, 10, kind, mode="L" if mode == "I;16" else mode)
    if mode == "I;16":
        buffer = io.BytesIO()
        opened(data).convert("I;16").save(buffer, kind)
        data = buffer.getvalue()
    assert opened(prepare_attachment(data).data).size == (1568, 8)


def test_a_bomb_is_refused_before_it_is_decoded():
    for data in (bomb(), bomb(9_000, 9_000)):
        with pytest.raises(AttachmentRefused, match="too many pixels"):
            prepare_attachment(data, "bomb.png")


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_that_was_cut_off_is_refused(kind):
    data = noise(200, 200, kind)
    with pytest.raises(AttachmentRefused, match="damaged"):
        prepare_attachment(data[: len(data) // 2], "half")


@settings(max_examples=150, deadline=None)
@given(
    kind=st.sampled_from(list(KINDS)),
    cuts=st.lists(st.tuples(st.integers(0, 2_000), st.binary(min_size=1, max_size=8)), max_size=6),
)
def test_whatever_is_wrong_with_a_picture_is_said_and_nothing_else_happens(kind, cuts):
    data = bytearray(picture(24, 16, kind))
    for at, junk in cuts:
        data[at % len(data) : at % len(data) + len(junk)] = junk
    with contextlib.suppress(AttachmentRefused):
        prepared_attachment = prepare_attachment(bytes(data))
        assert opened(prepared_attachment.data).size == (
            prepared_attachment.attachment.width,
            prepared_attachment.attachment.height,
        )


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"hello", "neither"),
        (b"\0\0\0\x18ftypheic" + bytes(40), "HEIC"),
        (b"8BPS" + bytes(60), "PHOTOSHOP"),
    ],
)
def test_what_can_not_be_read_is_refused_with_a_reason(data, words):
    with pytest.raises(AttachmentRefused) as refused:
        prepare_attachment(data, "it")
    assert words.lower() in refused.value.message.lower()
    assert refused.value.hint


@needs_pypdf
def test_a_pdf_goes_as_it_is_and_its_pages_are_counted():
    data = pdf("Hello", "World")
    prepared_attachment = prepare_attachment(data, "a.pdf")
    assert prepared_attachment.data == data
    assert (prepared_attachment.attachment.media_type, prepared_attachment.attachment.pages) == ("application/pdf", 2)
    assert describe_attachment(prepared_attachment.attachment).startswith("2 pages pdf ")
    text = read_pdf_facts(data, text=True).text
    assert "Hello" in text
    assert "World" in text


@needs_pypdf
def test_a_pdf_that_can_not_be_read_is_refused():
    with pytest.raises(AttachmentRefused, match="damaged"):
        prepare_attachment(b"%PDF-1.7\n" + b"no more of it" * 20)


def test_a_pdf_reader_that_ends_badly_leaves_the_pages_unknown(monkeypatch):
    monkeypatch.setattr("core.attachments.preparation._READER", "/does/not/exist.py")
    assert prepare_attachment(pdf("x")).attachment.pages == 0


def test_a_preview_keeps_the_shape_and_has_two_pixels_in_a_cell():
    rows = render_preview(picture(64, 32), 20, 20)
    assert (len(rows), {len(row) for row in rows}) == (5, {20 * 12})
    red = io.BytesIO()
    Image.new("RGB", (4, 4), (255, 0, 16)).save(red, "PNG")
    assert render_preview(red.getvalue(), 2, 2) == ("ff0010" * 4,)


def test_a_label_is_found_again_in_what_was_written():
    one = prepare_attachment(picture(64, 48), "a.png").attachment
    two = prepare_attachment(picture(30, 30), "b.png").attachment
    known = {format_label(attachment, number): attachment for number, attachment in enumerate((one, two), 1)}
    first, second = known
    assert LABEL_PATTERN.fullmatch(first)
    assert first.startswith("[image 1: 64×48 png ")
    text = f"Look at {second}, then {first} and {second} again [image 9: 1×1 png 3 B]"
    assert find_attachments(text, known) == (two, one)
    assert strip_labels(text) == "Look at , then and again"
    assert find_attachments(text, {}) == ()
