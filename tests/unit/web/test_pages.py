"""Pages: told by their bytes, decoded as browsers do, without what stands around them or can't be seen."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from core.web import page_reader
from core.web.address import parse_address
from core.web.download import Download
from core.web.page_reader import read_page
from core.web.pages import PART_CHARS, build_page, decode_text, list_headings, show_beginning, show_matches, show_part

ADDRESS = parse_address("https://example.org/docs/page.html")
DOCS = """<!doctype html><html><head><title> The  docs </title><style>p {}</style></head><body>
<header>Site</header><nav><a href="/">Home</a></nav>
<main><h1>Install<a class="headerlink" href="#i">¶</a></h1><p>Run <a href="/x">this</a>:</p>
<pre><code class="language-sh"># not a heading
pip install it</code></pre>
<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table></main>
<aside>Ads</aside><footer>Imprint</footer><script>evil()</script></body></html>"""


def built(data: bytes, media_type: str = "", charset: str = ""):
    return build_page(Download(address=ADDRESS, status=200, media_type=media_type, charset=charset, data=data))


def test_a_page_loses_what_stands_around_it_and_keeps_code_tables_and_links():
    page = built(DOCS.encode(), "text/html")
    assert page.title == "The docs"
    assert page.text == (
        "# Install\n\nRun [this](https://example.org/x):\n\n```sh\n# not a heading\npip install it\n```\n\n"
        "| a | b |\n| --- | --- |\n| 1 | 2 |"
    )
    assert "evil()" in page.source


@pytest.mark.parametrize("media_type", ["text/plain", "", "application/octet-stream", "text/html"])
def test_the_bytes_of_a_page_say_that_it_is_one(media_type):
    assert built(DOCS.encode(), media_type).kind == "html"


@pytest.mark.parametrize(
    ("data", "charset", "text"),
    [
        ("Grüße".encode("cp1252"), "iso-8859-1", "Grüße"),
        ("Grüße".encode("cp1252"), "", "Grüße"),
        ("Grüße".encode(), "", "Grüße"),
        ("Grüße".encode("utf-16"), "", "Grüße"),
        ("Grüße".encode("utf-8-sig"), "latin-1", "Grüße"),
        ("Привет".encode("koi8-r"), "koi8-r", "Привет"),
        (b'<meta charset="koi8-r">' + "Привет".encode("koi8-r"), "", '<meta charset="koi8-r">Привет'),
        ("Grüße".encode(), "no-such-charset", "Grüße"),
        ("Grüße".encode(), "zip", "Grüße"),
        ("Gr-üße".encode(), "punycode", "Gr-üße"),
        (rb"\u0041", "unicode_escape", r"\u0041"),
        (b"+AEE-", "utf-7", "+AEE-"),
        ("日本語".encode("shift_jis"), "Shift_JIS", "日本語"),
        ("①髙".encode("cp932"), "Shift_JIS", "①髙"),
        ("中文€".encode("gb18030"), "gb2312", "中文€"),
    ],
)
def test_a_text_is_decoded_whatever_its_head_says(data, charset, text):
    assert decode_text(Download(address=ADDRESS, status=200, charset=charset, data=data)) == text


def test_i6_what_can_not_be_seen_is_written_visibly():
    page = built("safe\u202etxt \U000e0041 \x1b[2J".encode(), "text/plain")
    assert not {"\u202e", "\U000e0041", "\x1b"} & set(page.text)


def test_json_markdown_and_pictures_are_what_they_are():
    assert built(b'{"a":[1]}', "application/json").text == '{\n "a": [\n  1\n ]\n}'
    assert built(b"# Title\n", "text/markdown").kind == "markdown"
    out = io.BytesIO()
    Image.new("RGB", (3, 2)).save(out, "PNG")
    page = built(out.getvalue(), "text/html")
    assert (page.kind, page.picture.attachment.width) == ("picture", 3)


def body(html: str, address: str = "https://example.org/docs/page.html") -> str:
    return str(read_page(f"<title>T</title><body>{html}</body>", address)["text"])


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<a href='../b.html' title='B'>b</a>", "[b](https://example.org/b.html)"),
        ("<base href='/v2/x/'><a href='b c'>b</a>", "[b](https://example.org/v2/x/b%20c)"),
        ("<h2><a href='#x'>Title</a> <a href='page.html#x'>§</a></h2>", "## Title"),
        ("<a href='javascript:go()'>go</a> <a href='http://[1'>bad</a>", "go bad"),
    ],
)
def test_a_link_leads_to_an_address_that_can_be_fetched_or_is_none(html, text):
    assert body(html) == text


NUMBERED = "<table><tr><td><pre>1\n2</pre></td><td><pre class='language-py'>def f():\n    pass</pre></td></tr></table>"
PARTED = "<pre data-language='py'><code><div>def f():</div><div><i>    pass</i></div></code></pre>"
SPHINX = "<div class='highlight-py notranslate'><div class='highlight'><pre>def f():\n    pass\n</pre></div></div>"
GITHUB = "<div class='highlight highlight-source-py'><pre>def f():\n    pass</pre></div>"


@pytest.mark.parametrize("html", [NUMBERED, PARTED, SPHINX, GITHUB])
def test_code_keeps_its_lines_and_its_language_however_it_is_highlighted(html):
    assert body(html) == "```py\ndef f():\n    pass\n```"


def test_words_stay_as_they_are_so_that_they_can_be_found():
    signature = body("<dl><dt>asyncio.<span>wait_for</span>(*args)</dt></dl>")
    assert show_matches(signature, "asyncio.wait_for(*args)").startswith("[1 ")
    assert body("<pre>a ``` fence</pre>") == "````\na ``` fence\n````"
    assert "| `a\\|b` | c |" in body("<table><tr><th>x</th><th>y</th></tr><tr><td><code>a|b</code></td><td>c</td></tr>")
    tex = "<math><mi>x</mi><annotation encoding='application/x-tex'>x_1^2</annotation></math>"
    assert body(f"so {tex} is") == "so $x_1^2$ is"


def test_what_a_page_is_about_is_kept_wherever_it_stands():
    sentence = "This is what the page is about, at some length. "
    assert sentence.strip() in body(f"<form action='/x'><main>{sentence * 5}</main></form>")
    assert sentence.strip() in body(f"<header>{sentence * 5}</header><main></main>")
    assert "Beware" in body(f"<main>{sentence * 5}<aside class='admonition'>Beware</aside></main><aside>Ads</aside>")
    assert "Ads" not in body(f"<main>{sentence * 5}</main><aside>Ads</aside><form>Search <label>here</label></form>")
    tabs = "<div role=tabpanel>npm i</div><div role=tabpanel hidden>yarn add</div>"
    assert "yarn add" in body(f"<main>{sentence}{tabs}</main>")
    posts = body("".join(f"<article>{number} {sentence}</article>" for number in range(5)))
    assert [posts.count(f"{number} This") for number in range(5)] == [1] * 5


def test_a_page_that_is_nested_without_end_is_read_all_the_same():
    page = built(b"<html><body>" + b"<div><ul><li>" * 2_000 + b"the end of it" + b"</body></html>", "text/html")
    assert "the end of it" in page.text


@given(st.text(alphabet="<>/abdivpretmlh1 =\"'&;-!", max_size=300))
def test_any_html_is_read(html):
    page = read_page(html)
    assert isinstance(page["text"], str)


def test_a_long_text_is_shown_by_its_beginning_and_its_sections():
    text = "".join(f"## Part {number}\n\n{'word ' * 200}\n\n```\n# no\n```\n\n" for number in range(40))
    excerpt = show_beginning(text)
    assert len(excerpt) < 10_000
    for place, title in list_headings(text):
        assert text[place:].startswith(title)
        assert f"{place:>8,}  {title}" in excerpt
    assert "# no" not in [title for _, title in list_headings(text)]
    assert show_matches(text, "PART 7").count("[at ") == 1
    assert "is not in" in show_matches(text, "absent")


@given(st.text(alphabet="ab \n#`", max_size=60).map(lambda part: part * 1200))
def test_the_parts_of_a_text_are_the_text(text):
    whole, place = "", 0
    while place < len(text):
        excerpt = show_part(text, place)
        part, mark, rest = excerpt.partition("\n\n[Up to ") if len(text) - place > PART_CHARS else (excerpt, "", "")
        whole += part
        place = int(rest.rpartition("offset=")[2].rstrip(".]")) if mark else len(text)
    assert whole == text


SAID = "The release came late, for reason {}, which the maintainers told us at length and with many examples."
NOTES = '<p>See <a href="/notes">the notes</a>.</p>'
ADVICE = (
    "<div class=related><h4>You may also like</h4><ul><li><a href=/a>Ten editors that nobody needs</a></li></ul></div>"
)
ARTICLE = f"""<div class="post"><h1>Why it came late</h1>{"".join(f"<p>{SAID.format(each)}</p>" for each in range(15))}
{NOTES}</div>{ADVICE}<div class="share">Share this on <a href="/s">every network</a></div>"""
KEPT = [SAID.format(each) for each in range(15)]


def test_of_an_article_what_stands_around_it_is_left_out():
    text = body(ARTICLE)
    assert [phrase for phrase in KEPT if phrase not in text] == []
    assert "[the notes](https://example.org/notes)" in text
    assert "Ten editors" not in text
    assert "Share this" not in text


@pytest.mark.parametrize("part", ["<pre>go()</pre>", "<table><tr><th>x</th></tr></table>", "<dl><dt>x</dt></dl>"])
def test_of_a_page_in_which_things_are_looked_up_nothing_is_left_out(part):
    assert "Ten editors" in body(ARTICLE.replace("<h1>", f"{part}<h1>", 1))


READER = f"""
import sys, types
sys.path.insert(0, {str(Path(page_reader.__file__).parent)!r})
import page_reader
def extract(*_, **__):
    FAULT
sys.modules["trafilatura"] = types.SimpleNamespace(extract=extract)
page_reader.PROSE_CPU_SECONDS, page_reader.MAX_CPU_SECONDS = 1, 30
page_reader._limit_resources()
print(page_reader.read_page(sys.stdin.read())["text"])
"""


@pytest.mark.parametrize("fault", ["while True: pass", "raise ValueError", "return 'too little of it'"])
def test_an_article_that_can_not_be_extracted_is_read_without_that(fault):
    program = [sys.executable, "-c", READER.replace("FAULT", fault)]
    done = subprocess.run(program, input=ARTICLE, capture_output=True, text=True, check=True)
    assert [phrase for phrase in KEPT if phrase not in done.stdout] == []
    assert "Ten editors" not in done.stdout
