"""What was counted holds for the request that it was counted for; the rest is reckoned from its bytes."""

from __future__ import annotations

import pytest

from core.agent.context.token_meter import BYTES_PER_TOKEN, TokenMeter, estimate_attachment_tokens, measure_messages
from core.protocol.messages import Attachment, UserMessage

ASKED = [UserMessage(content="x" * 4_000)]
MORE = UserMessage(content="y" * 2_000)


def counted(tokens: int) -> TokenMeter:
    """A meter that was told the tokens of 1,000 bytes of prefix and the first message."""
    meter = TokenMeter()
    meter.calibrate(1_000, ASKED, tokens)
    return meter


def test_before_anything_was_counted_four_bytes_are_a_token():
    assert TokenMeter().count_tokens(1_000, ASKED) == round((1_000 + measure_messages(ASKED)) / BYTES_PER_TOKEN)


def test_what_was_counted_stays_and_only_what_came_since_is_reckoned():
    meter = counted(2_508)  # two bytes a token
    assert meter.count_tokens(1_000, ASKED) == 2_508
    assert meter.count_tokens(1_000, [*ASKED, MORE]) == 2_508 + measure_messages([MORE]) // 2


@pytest.mark.parametrize("prefix", [0, 998, 50_000])
def test_a_count_says_nothing_about_a_request_with_another_prefix(prefix):
    assert counted(2_508).count_tokens(prefix, ASKED) == (prefix + measure_messages(ASKED)) // 2


def test_a_count_says_nothing_about_a_history_that_was_shortened_or_replaced():
    meter = counted(2_508)
    assert meter.count_tokens(1_000, []) == 500
    meter.reset()
    assert meter.count_tokens(1_000, [MORE]) == (1_000 + measure_messages([MORE])) // 2


@pytest.mark.parametrize(("tokens", "per_token"), [(1, 12.0), (1_000_000, 1.0)])
def test_a_count_that_can_not_be_right_does_not_make_the_next_ones_absurd(tokens, per_token):
    meter = counted(tokens)
    meter.reset()
    assert meter.estimate(1_200) == round(1_200 / per_token)


def test_a_server_that_counts_nothing_changes_nothing():
    assert counted(0).count_tokens(1_000, ASKED) == TokenMeter().count_tokens(1_000, ASKED)


def test_a_picture_counts_by_its_area_and_not_by_its_name():
    picture = Attachment(digest="b", media_type="image/png", name="a.png", width=1_500, height=1_000, size=1)
    picture_cost = measure_messages([UserMessage(content="", attachments=(picture,))]) - measure_messages(
        [UserMessage(content="")]
    )
    assert picture_cost == 1_500 * 1_000 // 750 * BYTES_PER_TOKEN


def test_pictures_count_by_their_area_and_pdfs_by_their_pages():
    assert estimate_attachment_tokens(Attachment(digest="", media_type="image/png", width=1568, height=1568)) == 3278
    assert estimate_attachment_tokens(Attachment(digest="", media_type="image/png", width=1, height=1)) == 1
    assert estimate_attachment_tokens(Attachment(digest="", media_type="application/pdf", pages=3)) == 6_900
