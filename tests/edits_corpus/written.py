"""SEARCH/REPLACE blocks and strings, one by one: how they are written, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator

from tests.edits_corpus.case import Case, angled, dashed, strings

ABC = "a\nb\nc\n"
CONFLICT = "x = 1\n<<<<<<< HEAD\ny = 2\n=======\ny = 3\n>>>>>>> topic\nz = 4\n"
TWINS = "def one(x):\n    y = x\n    return y\n\n\ndef two(x):\n    y = x\n    return y\n"

# (name, original, edit, expected)
ORDINARY = [
    ("one block", ABC, dashed(("b\n", "B\n")), "a\nB\nc\n"),
    ("two blocks", ABC, dashed(("a\n", "A\n"), ("c\n", "C\n")), "A\nb\nC\n"),
    ("two blocks in reverse order", ABC, dashed(("c\n", "C\n"), ("a\n", "A\n")), "A\nb\nC\n"),
    ("a block that builds on the one before", ABC, dashed(("b\n", "B\n"), ("B\n", "BB\n")), "a\nBB\nc\n"),
    ("twelve marks", ABC, "------------ SEARCH\nb\n============\nB\n++++++++++++ REPLACE\n", "a\nB\nc\n"),
    ("empty REPLACE deletes", ABC, dashed(("b\n", "")), "a\nc\n"),
    ("the last line is deleted", "a\nb", dashed(("b\n", "")), "a\n"),
    ("empty SEARCH replaces the file", ABC, dashed(("", "new\n")), "new\n"),
    ("both empty empty the file", ABC, dashed(("", "")), ""),
    ("empty SEARCH fills an empty file", "", dashed(("", "new\n")), "new\n"),
    ("no newline after the last marker", ABC, dashed(("b\n", "B\n")).rstrip(), "a\nB\nc\n"),
    ("text around", ABC, "Now this.\n" + dashed(("b\n", "B\n")) + "And that.\n" + dashed(("c\n", "C\n")), "a\nB\nC\n"),
    ("a fence around", ABC, "```\n" + dashed(("b\n", "B\n")) + "```\n", "a\nB\nc\n"),
    ("blank lines are content", "a\n\n\nb\n", dashed(("a\n\n\nb\n", "a\n\nb\n")), "a\n\nb\n"),
    ("dollars are literal", "a\n", dashed(("a\n", "$1 $& \\1 \\n\n")), "$1 $& \\1 \\n\n"),
    ("signs of expressions are literal", "a.*b\nacxb\n", dashed(("a.*b\n", "ok\n")), "ok\nacxb\n"),
    ("six marks are content", ABC + "======\n", dashed(("c\n======\n", "C\n")), "a\nb\nC\n"),
    ("a conflict is resolved", CONFLICT, dashed((CONFLICT[6:-6], "y = 3\n")), "x = 1\ny = 3\nz = 4\n"),
    ("a conflict is resolved, angles", CONFLICT, angled((CONFLICT[6:-6], "y = 3\n")), "x = 1\ny = 3\nz = 4\n"),
    ("a conflict is put in", "y = 3\n", dashed(("y = 3\n", CONFLICT)), CONFLICT),
    (
        "the end of a conflict is deleted",
        CONFLICT,
        dashed(("=======\ny = 3\n>>>>>>> topic\n", "")),
        CONFLICT[:25] + "z = 4\n",
    ),
    (
        "the start of a conflict is deleted",
        CONFLICT,
        dashed(("<<<<<<< HEAD\n", "")),
        CONFLICT.replace("<<<<<<< HEAD\n", ""),
    ),
    ("an escaped marker", "a\n=======\nb\n", angled(("a\n\\=======\n", "a\n")), "a\nb\n"),
    (
        "a heading's underline",
        "Title\n=====\n\nText\n",
        dashed(("Title\n=====\n", "Other\n=====\n")),
        "Other\n=====\n\nText\n",
    ),
    (
        "a long underline",
        "Heading\n=======\n\nText\n",
        dashed(("Heading\n=======\n", "Subject\n=======\n")),
        "Subject\n=======\n\nText\n",
    ),
    ("a byte order mark stays", "\ufeffa\nb\n", dashed(("b\n", "B\n")), "\ufeffa\nB\n"),
    ("a form feed is content", "a\x0cb\nc\n", dashed(("a\x0cb\n", "a\x0cB\n")), "a\x0cB\nc\n"),
    (
        "tags",
        ABC,
        '<chat>Yes.</chat>\n<file-edit filePath="file.txt">\n' + dashed(("b\n", "B\n")) + "</file-edit>",
        "a\nB\nc\n",
    ),
    (
        "tags in single quotes",
        ABC,
        "<file-edit mode='x' filePath='file.txt'>\n" + dashed(("b\n", "B\n")) + "</file-edit>",
        "a\nB\nc\n",
    ),
    (
        "tags of two files",
        ABC,
        '<file-edit filePath="other.txt">\n'
        + dashed(("a\n", "A\n"))
        + '</file-edit>\n<file-edit filePath="file.txt">\n'
        + dashed(("b\n", "B\n"))
        + "</file-edit>",
        "a\nB\nc\n",
    ),
    ("a start line chooses", "a\nx\na\n", angled((":start_line:3\n-------\na\n", "b\n")), "a\nx\nb\n"),
    ("the same text once on a line and once in one", "xb\nb\n", dashed(("b\n", "B\n")), "xb\nB\n"),
]
TOLERANCE = [
    ("a start line that is wrong", ABC, angled((":start_line:9\n-------\nb\n", "B\n")), "a\nB\nc\n"),
    ("a start line in brackets", ABC, angled((":start_line: [2]\n:end_line:[2]\n-------\nb\n", "B\n")), "a\nB\nc\n"),
    ("a stray sign", ABC, angled(("b\n", "B\n")).replace("SEARCH", "SEARCH>"), "a\nB\nc\n"),
    ("white space after angled markers", ABC, "<<<<<<< SEARCH  \nb\n=======  \nB\n>>>>>>> REPLACE  \n", "a\nB\nc\n"),
    ("five angles", ABC, "<<<<< SEARCH\nb\n=======\nB\n>>>>>>> REPLACE\n", "a\nB\nc\n"),
    ("markers with CRLF", ABC, angled(("b\n", "B\n")).replace("\n", "\r\n"), "a\nB\nc\n"),
    ("the end of a line", "call(x) # b c d\n", dashed(("# b c d\n", "# e\n")), "call(x) # e\n"),
    (
        "spacing of signs",
        "def f(a, b):\n    return a + b\n",
        dashed(("def f( a,b ):\n    return a+b\n", "def f(a):\n    return a\n")),
        "def f(a):\n    return a\n",
    ),
    ("curly quotes", "say(“yes”)\nend\n", dashed(('say("yes")\n', 'say("no")\n')), 'say("no")\nend\n'),
    ("a long dash", "a — b\nc\n", dashed(("a - b\n", "a - d\n")), "a - d\nc\n"),
    ("decomposed letters", "caf\u00e9 = 1\n", dashed(("cafe\u0301 = 1\n", "bar = 1\n")), "bar = 1\n"),
    (
        "an elided middle that stays",
        "f(\n  a,\n  b,\n  c,\n)\n",
        dashed(("f(\n...\n  c,\n", "f(\n...\n  d,\n")),
        "f(\n  a,\n  b,\n  d,\n)\n",
    ),
    (
        "an elided middle that goes",
        "def f():\n    a = 1\n    b = 2\n    return a\n\nx = 1\n",
        dashed(("def f():\n    ...\n    return a\n", "def f():\n    return 1\n")),
        "def f():\n    return 1\n\nx = 1\n",
    ),
    (
        "a misspelt word in a block",
        "begin()\nconfiguration = load(path)\nfinish(configuration)\n",
        dashed(("begin()\nconfigurtion = load(path)\nfinish(configuration)\n", "begin()\nfinish(load(path))\n")),
        "begin()\nfinish(load(path))\n",
    ),
    (
        "a misspelt long line",
        "a = 1\nresult = transform(collected, options)\nb = 2\n",
        dashed(("result = transform(colected, options)\n", "result = None\n")),
        "a = 1\nresult = None\nb = 2\n",
    ),
    (
        "entities",
        'if (a < b && c > "d") {\n',
        dashed(("if (a &lt; b &amp;&amp; c &gt; &quot;d&quot;) {\n", "if (a &lt; b) {\n")),
        "if (a < b) {\n",
    ),
    (
        "all indentation lost",
        "if a:\n    b()\n    if c:\n        d()\n",
        dashed(("if a:\nb()\nif c:\nd()\n", "if a:\n    b()\n    if c:\n        e()\n")),
        "if a:\n    b()\n    if c:\n        e()\n",
    ),
]
REFUSED = [
    ("no block", ABC, "b becomes B"),
    ("text that does not exist", ABC, dashed(("d\n", "D\n"))),
    ("text that is there twice", "a\nb\na\n", dashed(("a\n", "A\n"))),
    ("a body that two functions have", TWINS, dashed(("    y = x\n    return y\n", "    return x\n"))),
    ("one of two blocks does not exist", ABC, dashed(("a\n", "A\n"), ("d\n", "D\n"))),
    ("two blocks for one place", ABC, dashed(("b\n", "B\n"), ("b\n", "X\n"))),
    ("a twin that is unique after another block", "a\nb\na\n", dashed(("a\nb\n", "c\nb\n"), ("a\n", "A\n"))),
    ("six dashes", ABC, "------ SEARCH\nb\n=======\nB\n+++++++ REPLACE\n"),
    ("six equals signs", ABC, "------- SEARCH\nb\n======\nB\n+++++++ REPLACE\n"),
    ("six plus signs", ABC, "------- SEARCH\nb\n=======\nB\n++++++ REPLACE\n"),
    ("no space in a marker", ABC, "-------SEARCH\nb\n=======\nB\n+++++++ REPLACE\n"),
    ("a space after a divider", ABC, "------- SEARCH\nb\n======= \nB\n+++++++ REPLACE\n"),
    ("small letters", ABC, "------- search\nb\n=======\nB\n+++++++ replace\n"),
    ("no divider", ABC, "------- SEARCH\nb\n+++++++ REPLACE\n"),
    ("no end", ABC, "------- SEARCH\nb\n=======\nB\n"),
    ("no start", ABC, "b\n=======\nB\n+++++++ REPLACE\n"),
    ("an end alone", ABC, "+++++++ REPLACE\n"),
    ("two ends", ABC, dashed(("b\n", "B\n")) + "+++++++ REPLACE\n"),
    ("two starts", ABC, "------- SEARCH\n------- SEARCH\nb\n=======\nB\n+++++++ REPLACE\n"),
    ("two dividers", ABC, "------- SEARCH\nb\n=======\n=======\n+++++++ REPLACE\n"),
    ("two dividers with text", ABC, "<<<<<<< SEARCH\nb\n=======\nB\n=======\nC\n>>>>>>> REPLACE\n"),
    ("a marker within a line", ABC, "x ------- SEARCH\nb\n=======\nB\n+++++++ REPLACE\n"),
    ("a start line in REPLACE", ABC, angled(("b\n", ":start_line:2\nB\n"))),
    ("empty SEARCH beside another block", ABC, dashed(("", "x\n"), ("b\n", "B\n"))),
    ("another number", "timeout = 100\nretries = 3\nend\n", dashed(("timeout = 200\nretries = 3\nend\n", "x\n"))),
    ("another sign", "if a < b:\n    stop()\n    end()\n", dashed(("if a > b:\n    stop()\n    end()\n", "x\n"))),
    (
        "another name that is near",
        "def get_user(x):\n    a(x)\n    return x\n",
        dashed(("def set_user(x):\n    a(x)\n    return x\n", "x\n")),
    ),
    (
        "two near places for a misspelt word",
        "begin()\nvalue = load(primary)\nend()\nbegin()\nvalue = load(primery)\nend()\n",
        dashed(("begin()\nvalue = load(prmary)\nend()\n", "x\n")),
    ),
    (
        "an elided middle across two functions",
        TWINS,
        dashed(("def one(x):\n...\ndef two(x):\n    y = x\n    return x\n", "x\n")),
    ),
    ("white space alone", "a\n\nb\n", dashed(("   \n", "x\n"))),
    ("only a part of a line", "total = subtotal + tax\n", dashed(("total = sub\n", "x\n"))),
    ("a line within another word", "max = 1\n", dashed(("x = 1\n", "x = 2\n"))),
    ("a space in a string", 'x = a.join(" ")\ny = 1\nz = 2\n', dashed(('x = a.join("")\ny = 1\nz = 2\n', "x\n"))),
    ("a block in another order", "a()\nb()\nc()\n", dashed(("b()\na()\nc()\n", "x\n"))),
    ("reversed nesting", "if x:\n    a()\nb()\n", dashed(("if x:\na()\n    b()\n", "x\n"))),
]
STRINGS = [
    ("a word", "one two\n", strings("two", "2"), "one 2\n"),
    ("dollars", "a\n", strings("a", "$&$1\\1"), "$&$1\\1\n"),
    ("all of them", "a b a\n", strings("a", "c", replace_all=True), "c b c\n"),
    ("to nothing", "a b\n", strings(" b", ""), "a\n"),
    ("over lines", "a\nb\nc\n", strings("a\nb", "x"), "x\nc\n"),
    ("a new file", None, strings("", "x\n"), "x\n"),
    ("an empty file", "", strings("", "x\n"), "x\n"),
    ("a list", "a b\n", '[{"old_string": "a", "new_string": "1"}, {"old_string": "1 b", "new_string": "2"}]', "2\n"),
    ("white space around", "one two three\n", strings("  two  ", "2"), "one 2 three\n"),
    ("escaped line breaks", 'f("a")\ng()\n', strings('f(\\"a\\")\\ng()', "h()"), "h()\n"),
    (
        "reflowed",
        "function f() {\n  return true;\n}\n",
        strings("function f(){return true;}", "const f = 1;"),
        "const f = 1;\n",
    ),
    (
        "reflowed in the middle",
        '{\n  "a": {\n    "b": 1\n  }\n}\n',
        strings('"a":{"b":1}', '"a": 2'),
        '{\n  "a": 2\n}\n',
    ),
    ("other case", "const myVariable = compute(1);\n", strings("const MYVARIABLE = compute(1);", "x"), "x\n"),
]
STRINGS_REFUSED = [
    ("not there", "a\n", strings("b", "c")),
    ("twice", "a a\n", strings("a", "b")),
    ("the same", "a\n", strings("a", "a")),
    ("empty in a file with text", "a\n", strings("", "b")),
    ("no file", None, strings("a", "b")),
    ("no JSON", "a\n", "{"),
    ("no text", "a\n", '{"old_string": 1, "new_string": "b"}'),
    ("second of a list", "a b\n", '[{"old_string": "a", "new_string": "1"}, {"old_string": "x", "new_string": "2"}]'),
    ("a word in other case", "config = 1\n", strings("Config", "Settings")),
    ("a string without its space", 'join(" ", values, other)\n', strings('join("",  values, other)', "x")),
    ("words run together", "this_isnot it at all\n", strings("this_is not it at all", "x")),
]
PARSED = [
    (
        "a name in the fence",
        "Do:\n\n```text\nfoo.txt\n" + angled(("a\n", "b\n")) + "```\n",
        [["foo.txt", "a\n", "b\n"]],
    ),
    ("a name above the fence", "foo.txt\n```\n" + angled(("a\n", "b\n")) + "```\n", [["foo.txt", "a\n", "b\n"]]),
    ("a name in bold", "**src/foo.py**\n```\n" + angled(("a\n", "b\n")) + "```\n", [["src/foo.py", "a\n", "b\n"]]),
    ("a name in backticks", "`src/foo.py`:\n```\n" + angled(("a\n", "b\n")) + "```\n", [["src/foo.py", "a\n", "b\n"]]),
    ("a name as a heading", "### src/foo.py\n```\n" + angled(("a\n", "b\n")) + "```\n", [["src/foo.py", "a\n", "b\n"]]),
    (
        "the name of the block before",
        "foo.txt\n" + angled(("a\n", "b\n")) + "\n...\n\n" + angled(("c\n", "d\n")),
        [["foo.txt", "a\n", "b\n"], ["foo.txt", "c\n", "d\n"]],
    ),
    (
        "a name in a fence of its own",
        "```\nfoo.txt\n```\n```\n" + angled(("a\n", "b\n")) + "```\n",
        [["foo.txt", "a\n", "b\n"]],
    ),
    ("no name", dashed(("a\n", "b\n")), [[None, "a\n", "b\n"]]),
    ("a sentence is not a valid name", "Now change this line:\n" + dashed(("a\n", "b\n")), [[None, "a\n", "b\n"]]),
    (
        "two files",
        "a.py\n" + angled(("a\n", "b\n")) + "\nb.py\n" + angled(("c\n", "")),
        [["a.py", "a\n", "b\n"], ["b.py", "c\n", ""]],
    ),
    (
        "a tag",
        '<file-edit filePath="src/a &amp; b.ts">\n' + dashed(("a\n", "b\n")) + "</file-edit>\n",
        [["src/a & b.ts", "a\n", "b\n"]],
    ),
    (
        "a tag of two blocks",
        '<file-edit filePath="a.ts">\n' + dashed(("a\n", "b\n"), ("c\n", "d\n")) + "</file-edit>\n",
        [["a.ts", "a\n", "b\n"], ["a.ts", "c\n", "d\n"]],
    ),
    ("a new file", "new/file.py\n```python\n" + angled(("", "x = 1\n")) + "```\n", [["new/file.py", "", "x = 1\n"]]),
]
UNPARSED = ["no block", "<<<<<<< SEARCH\na\n=======\nb\n", "<<<<<<< SEARCH\na\n>>>>>>> REPLACE\n"]


def cases() -> Iterator[Case]:
    for kind, group in (("ordinary", ORDINARY), ("tolerance", TOLERANCE)):
        for name, original, edit, expected in group:
            yield Case(
                f"blocks, {name}", "refusal" if expected is None else kind, "search_replace", original, edit, expected
            )
    for name, original, edit in REFUSED:
        yield Case(f"refused blocks, {name}", "refusal", "search_replace", original, edit, None)
    for number, (name, original, edit, expected) in enumerate(STRINGS):
        yield Case(
            f"strings, {name}", "ordinary" if number < 8 else "tolerance", "str_replace", original, edit, expected
        )
    for name, original, edit in STRINGS_REFUSED:
        yield Case(f"refused strings, {name}", "refusal", "str_replace", original, edit, None)
    for name, edit, expected in PARSED:
        yield Case(f"parsed, {name}", "ordinary", "search_replace_parse", "", edit, expected)
    for number, edit in enumerate(UNPARSED):
        yield Case(f"not parsed, {number}", "refusal", "search_replace_parse", "", edit, None)
