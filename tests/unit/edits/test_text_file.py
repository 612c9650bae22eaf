"""A file is one text in one encoding: read in it, written in it, and never a mixture of two."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.edits.errors import EditError
from core.edits.text_file import decode_text
from core.text.legacy_encodings import find_encoding

TEXTS = {
    "latin-1": "# Größe, naïve café\nname = 'x'\n",
    "cp1252": "It’s a “naïve” café – 5 €\nname = 'x'\n",
    "gbk": "名称=测试\n端口=80\n",
    "big5": "名稱=測試，這是一個設定檔\n埠=80\n",
    "shift_jis": "名前=テスト\nポート=80\n",
    "euc_jp": "名前=テスト\nポート=80\n",
    "euc_kr": "이름=시험\n포트=80\n",
    "cp1250": "zażółć gęślą jaźń użytkownik się\n",
    "cp1251": "# это файл настроек\nимя = тест\n",
    "koi8-r": "# это файл настроек\nимя = тест\n",
    "cp1253": "όνομα χρήστη, αρχείο για το σφάλμα\n",
    "cp1254": "kullanıcı şifre bağlantı değer için\n",
}
ADDED = {"gbk": "超时=30\n", "big5": "逾時=30\n", "shift_jis": "接続=1\n", "euc_jp": "接続=1\n", "euc_kr": "시간=1\n"}


@pytest.mark.parametrize("codec", TEXTS)
def test_a_text_is_read_and_written_in_its_own_encoding(codec):
    text = TEXTS[codec]
    file = decode_text(text.encode(codec))
    assert file is not None
    assert (file.text, file.encode(text)) == (text, text.encode(codec))
    longer = text + ADDED.get(codec, text.splitlines()[0])
    assert file.encode(longer) == longer.encode(codec)


@pytest.mark.parametrize("codec", TEXTS)
def test_a_character_without_a_place_is_named_and_nothing_is_written(codec):
    file = decode_text(TEXTS[codec].encode(codec))
    with pytest.raises(EditError, match=r"😀 \(U\+1F600\)"):
        file.encode(f"{file.text}😀\n")


@pytest.mark.parametrize(
    "head",
    [
        "# -*- coding: {} -*-\n",
        "# vim: set fileencoding={} :\n",
        '<?xml version="1.0" encoding="{}"?>\n',
        '@charset "{}";\n',
        'msgid ""\nmsgstr "Content-Type: text/plain; charset={}\\n"\n',
    ],
)
@pytest.mark.parametrize("codec", ["latin-1", "iso-8859-15", "cp1252", "gbk", "shift_jis"])
def test_what_a_text_declares_counts(head, codec):
    text = f"{head.format(codec)}x = 'é'\n" if codec not in {"gbk", "shift_jis"} else f"{head.format(codec)}x = '北'\n"
    file = decode_text(text.encode(codec))
    assert file.text == text
    assert file.encode(f"{text}# {text[-3]}\n") == f"{text}# {text[-3]}\n".encode(codec)


@pytest.mark.parametrize(
    "text",
    [
        "He said “hello” — it’s fine\n",
        "don’t\n",
        "a – b\n",
        "pages 10–12, the user’s own\n",
        "wait… it’s ‘single’\n",
        "the dogs’ (“their tails”)\n",
    ],
)
def test_english_with_the_quotes_of_windows_is_read_as_it_was_written(text):
    file = decode_text(text.encode("cp1252"))
    assert file.text == text
    assert file.encode(f"{text}“new”\n") == f"{text}“new”\n".encode("cp1252")


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        ("schön größer\n", "cp437"),
        ("l'été déjà, voilà où\n", "cp850"),
        ("“hi”, it’s naïve\n", "mac-roman"),
        ("╔═╗\n", "cp437"),
        ("点h 能y\n", "shift_jis"),
        ("撁 x\n", "gbk"),
    ],
)
def test_letters_of_another_encoding_are_no_quotes_of_windows(text, codec):
    assert find_encoding(text.encode(codec)) is None


@pytest.mark.parametrize(
    "name", ["rot13", "utf-7", "unicode_escape", "punycode", "cp500", "base64", "no-such", "utf-16"]
)
def test_an_encoding_in_which_ascii_is_no_ascii_is_not_believed(name):
    assert decode_text(f"# coding: {name}\nx = '".encode() + b"\xff\xfe'\n").raw


def test_a_file_whose_encoding_can_not_be_told_gets_no_text_in_another_one():
    data = b"x = '\xff\xfe\x80\x81'\nport = 80\n"
    file = decode_text(data)
    assert file.encode(file.text) == data
    assert file.encode(file.text.replace("80", "81")) == data.replace(b"80", b"81")
    with pytest.raises(EditError, match="é"):
        file.encode(file.text.replace("80", "'é'"))


def test_utf_8_with_a_flaw_stays_utf_8():
    data = "# Größe, Übersicht, naïve\n".encode() + b"x = '\xff'\n"
    file = decode_text(data)
    assert file.encode(f"{file.text}# à\n") == data + "# à\n".encode()


@given(st.binary(max_size=60).map(lambda data: data.replace(b"\0", b"") + b"\xe9\n"))
def test_any_bytes_come_back(data):
    file = decode_text(data)
    assert file is None or file.encode(file.text) == data


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_no_utf_8_is_taken_for_something_else(text):
    assert find_encoding(text.encode()) is None
