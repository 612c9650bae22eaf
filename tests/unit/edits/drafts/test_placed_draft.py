# ruff: noqa: E501  (a draft is a line)
from __future__ import annotations

import pytest

from core.edits.errors import EditError
from core.edits.formats.draft import apply_drafts
from core.edits.formats.lazy import apply_lazy

FORMATS = pytest.mark.parametrize("format_", ["lazy", "draft"])
SETUP = """import io
import re

from setuptools import find_packages
from setuptools import setup

with io.open("README.rst", "rt", encoding="utf8") as f:
    readme = f.read()

setup(
    name="Flask",
    long_description=readme,
    packages=find_packages("src"),
    zip_safe=False,
)
"""
HOOK = """/**
 * What it prints.
 */
long private_bytes(char *field, long pid) {
#if defined(__APPLE__)
    struct proc_regioninfo pri;
    if (proc_pidinfo(pid, PROC_PIDREGIONINFO, 0, &pri, SIZE) ==
\tSIZE) {
\tif (!strcmp(field, "Private_Dirty:")) {
            return (size_t)pri.pri_pages_dirtied * 4096;
\t} else if (!strcmp(field, "Rss:")) {
            return (size_t)pri.pri_pages_resident * 4096;
\t}
    }
    return 0;
#endif
    return -1;
}
"""
COUNT = """using `read` calls and a buffer of one size.
*/

use std::cmp;

/// The number of lines.
#[inline(never)]

#[inline(never)]
pub fn count_lines(buf: &[u8], eol: u8) -> u64 {
    let mut count = 0;
    while let Some(pos) = memchr(eol, buf) {
        count += 1;
        buf = &buf[pos + 1..];
    }
    count
}

/// Replaces a with b in buf.
fn replace(buf: &mut [u8]) {}
"""
FIELD = """class FieldAttributes {
  boolean isSynthetic() {
    return isSynthetic;
  }

  /**
   * @deprecated remove this when FieldNamingStrategy is deleted.
   */
  @Deprecated
  Field getFieldObject() {
    return field;
  }
}
"""
VERBS = """package gin

// Get is a shortcut for Handle("GET", path)
func Get(path string) {
\te.GET(path)
}

// Delete is a shortcut for Handle("DELETE", path)
func Delete(path string) {
\te.DELETE(path)
}

// Patch is a shortcut for Handle("PATCH", path)
func Patch(path string) {
\te.PATCH(path)
}
"""
DUMP = """package gin

// secureDump returns a sanitized dump where the Authorization header,
// if present, is replaced with a masked value.
//
// Currently, only this header is sanitized. All other headers and request data remain unchanged.
func secureDump(r *http.Request) string {
\tlines := strings.Split(dump(r), "\\n")
\treturn strings.Join(lines, "\\n")
}
"""
PAGE = (
    "Title\n=====\n\n"
    + "\n".join(f"Part {number} says this.\nIt says more.\n" for number in range(9))
    + "\n.. ...\nEnd.\n"
)


def made(text: str, draft: str, format_: str, path: str) -> str | None:
    """The text after a draft in one of the two formats; None when it was refused."""
    try:
        if format_ == "lazy":
            return apply_lazy(text, draft, path)
        return apply_drafts(text, f'<file_edit path="{path}">\n{draft}</file_edit>', path)
    except EditError:
        return None


def test_n7_lines_before_a_draft_that_has_no_marker_there_are_not_silently_kept():
    draft = 'from setuptools import find_packages\nfrom setuptools import setup\n\nwith open("README.rst", encoding="utf8") as f:\n    readme = f.read()\n\nsetup(\n# ... unchanged ...\n'
    assert made(SETUP, draft, "lazy", "setup.py") is None


def test_n7_lines_after_a_draft_that_has_no_marker_there_are_not_silently_kept():
    text = '// Use of this is free.\n\npackage gin\n\nimport (\n\t"net/http"\n\t"net/http/httptest"\n)\n\n// Context returns one.\nfunc Context() {\n\treset()\n}\n\ntype Recorder struct {\n\tclosed chan bool\n}\n\nfunc (r *Recorder) Close() {\n\tr.closed <- true\n}\n'
    draft = '// ... existing code ...\npackage gin\n\nimport "net/http"\n\n// Context returns one.\nfunc Context() {\n\treset()\n}\n'
    assert made(text, draft, "lazy", "test_helpers.go") is None


@FORMATS
def test_n7_a_draft_in_the_indentation_of_the_file_is_not_shifted(format_: str):
    draft = '// ... existing code ...\nlong private_bytes(char *field, long pid) {\n#if defined(__APPLE__)\n    struct proc_regioninfo pri;\n    if (pid == -1) pid = getpid();\n    if (proc_pidinfo(pid, PROC_PIDREGIONINFO, 0, &pri,\n                     SIZE) == SIZE)\n    {\n        int size = getpagesize();\n        if (!strcmp(field, "Private_Dirty:")) {\n            return (size_t)pri.pri_pages_dirtied * size;\n        } else if (!strcmp(field, "Rss:")) {\n            return (size_t)pri.pri_pages_resident * size;\n        }\n    }\n    return 0;\n#endif\n// ... existing code ...\n'
    done = made(HOOK, draft, format_, "zmalloc.c")
    assert done is None or draft.split("...\n", 1)[1].rpartition("//")[0] in done


@FORMATS
def test_n7_a_definition_is_never_there_twice_because_its_old_body_went(format_: str):
    draft = "// ...\n}\n\n/// Replaces a with b in buf.\n// ...\n"
    draft = "// ...\n#[inline(never)]\npub fn count_lines(buf: &[u8], eol: u8) -> u64 {\n    bytecount::count(buf, eol) as u64\n}\n\n/// Replaces a with b in buf.\n// ...\n"
    done = made(COUNT, draft, format_, "search.rs")
    assert done is None or done.count("pub fn count_lines") == 1


@FORMATS
def test_n7_a_changed_comment_that_speaks_of_a_removal_is_a_line(format_: str):
    draft = "// ... existing code ...\n  /**\n   * remove this when FieldNamingStrategy is deleted.\n   */\n  @Deprecated\n  Field getFieldObject() {\n// ... existing code ...\n"
    assert made(FIELD, draft, format_, "A.java") == FIELD.replace("@deprecated ", "")
    upper = VERBS.replace("Get", "GET").replace("Delete", "DELETE").replace("Patch", "PATCH")
    draft = "// ... existing code ...\n" + upper.split("\n\n", 1)[1]
    assert made(VERBS, draft, format_, "option.go") in (None, upper)


@FORMATS
def test_n7_a_sentence_of_a_longer_comment_is_no_marker(format_: str):
    comment = "// secureDump returns a sanitized dump where the Authorization\n// headers are replaced with a masked value.\n//\n// Names are matched without case per RFC 9110, whatever they are.\n// per RFC 9110. All other headers and request data remain unchanged.\n"
    body = DUMP.split("func ")[1]
    draft = f"// ...\npackage gin\n\n{comment}func {body}"
    assert made(DUMP, draft.removeprefix("// ...\n"), format_, "recovery.go") in (
        None,
        f"package gin\n\n{comment}func {body}",
    )
    assert made(DUMP, draft, format_, "recovery.go") in (None, f"package gin\n\n{comment}func {body}")


@FORMATS
def test_n7_dots_alone_are_a_marker_of_rst_too(format_: str):
    draft = ".. ...\nPart 1 says this.\nIt says much more.\n\nPart 2 says this.\n.. ...\nPart 5 says this.\nIt says less.\n\nPart 6 says this.\n.. ...\n"
    expected_text = PAGE.replace("Part 1 says this.\nIt says more", "Part 1 says this.\nIt says much more")
    expected_text = expected_text.replace("Part 5 says this.\nIt says more", "Part 5 says this.\nIt says less")
    assert made(PAGE, draft, format_, "page.rst") in (None, expected_text)
    assert made(PAGE.replace(".. ...\n", ""), draft, format_, "page.rst") == expected_text.replace(".. ...\n", "")


@FORMATS
def test_n7_a_changed_copy_of_a_block_takes_the_place_of_nothing(format_: str):
    block = 'func setupGlob(mode string) func() {\n\tSetMode(mode)\n\trouter := New()\n\trouter.LoadGlob("./basic/*")\n\trouter.GET("/test", hello)\n\trouter.GET("/raw", raw)\n\trouter.Run(":8888")\n\tt.Log("waiting")\n\treturn func() {}\n}\n\n'
    new = block.replace("Glob(m", "Files(m").replace('LoadGlob("./basic/*")', 'LoadFiles("./basic/", ".tmpl")')
    text = f'package gin\n\nfunc start() {{\n\trouter.Run(":8888")\n\tt.Log("waiting")\n\treturn func() {{}}\n}}\n\n{block}func TestGlob() {{\n\ttd := setupGlob(mode)\n}}\n'
    draft = f'// ...\n\trouter.Run(":8888")\n\tt.Log("waiting")\n\treturn func() {{}}\n}}\n\n{new}func TestGlob() {{\n\ttd := setupGlob(mode)\n// ...\n'
    assert made(text, draft, format_, "gin_test.go") in (None, text.replace(block, block + new))


@FORMATS
def test_n7_the_place_with_more_of_the_context_is_not_left_for_a_cheaper_one(format_: str):
    head = "    it('passes through', () => {\n      let { container } = render(\n        <Transition show={true} enter=\"enter\">\n          Children\n        </Transition>\n      )\n\n      expect(container.firstChild).toMatchInlineSnapshot(`\n        <div>\n          Children\n        </div>\n      `)\n    })\n\n"
    old = '    it(\'passes through and appears\', () => {\n      let { container } = render(\n        <Transition show={true} appear={true} enter="enter">\n          Children\n        </Transition>\n      )\n\n      expect(container.firstChild).toMatchInlineSnapshot(`\n        <div\n          class="enter"\n        >\n      `)\n    })\n'
    new = old.replace(
        "() => {\n      let { container } = render(\n        <Tr",
        "async () => {\n      let { container } = await act(() =>\n        render(\n        <Tr",
        1,
    ).replace("      )\n", "        )\n      )\n\n      expect(container).toBeDefined()\n", 1)
    draft = "// ...\n" + "\n".join(head.split("\n")[5:]) + "\n".join(new.split("\n")[:-4]) + "\n// ...\n"
    assert made(head + old, draft, format_, "transition.test.tsx") in (None, head + new)


def test_n7_the_first_line_of_a_licence_that_names_the_file_is_a_line():
    head = "# urllib3/filepost.py\n# Copyright 2011 (see CONTRIBUTORS.txt)\n#\n# This is part of urllib3.\n\n"
    text = "import codecs\nimport mimetools\nimport mimetypes\n\nwriter = codecs.lookup('utf-8')[3]\n"
    draft = head + "import codecs\nimport mimetools\nimport mimetypes\n# ... unchanged ...\n"
    assert made(text, draft, "lazy", "urllib3/filepost.py") == head + text


def test_n7_a_head_that_is_cut_off_below_does_not_say_that_what_stands_before_it_stays():
    text = "const lerna = require('./lerna.json')\n\nmodule.exports = {\n  preset: 'ts-jest',\n  globals: {\n    __DEV__: true,\n    __VERSION__: lerna.version,\n    __BROWSER__: false,\n  },\n}\n"
    draft = "module.exports = {\n  preset: 'ts-jest',\n  globals: {\n    __DEV__: true,\n    __VERSION__: require('./package.json').version,\n    // ... unchanged ...\n"
    assert made(text, draft, "lazy", "jest.config.js") is None


@FORMATS
def test_n7_an_entry_with_the_words_of_a_marker_is_no_marker(format_: str):
    text = 'def make(name):\n    """Make one."""\n    result = dict(\n        name=name,\n        rest={\'HttpOnly\': None},\n        rfc2109=False,)\n\n    badargs = set(kwargs) - set(result)\n    return result\n'
    new = "def make(name):\n    \"\"\"Make one.\"\"\"\n    result = {\n        'name': name,\n        'rest': {'HttpOnly': None},\n        'rfc2109': False,\n    }\n\n    badargs = set(kwargs) - set(result)\n"
    assert made(text, new + "# no changes after\n", format_, "cookies.py") == new + "    return result\n"


def test_n7_a_draft_does_not_end_at_a_closing_tag_that_its_code_speaks_of():
    text = "def test():\n    draft = '<file_edit path=\"a.py\">x</file_edit>'\n    run(draft)\n    assert ran()\n\n\ndef rest():\n    stay()\n"
    draft = "def test():\n    draft = '<file_edit path=\"a.py\">x</file_edit>'\n    run(draft, once=True)\n    assert ran()\n\n\n# no changes after\n"
    assert made(text, draft, "draft", "test_a.py") == text.replace("run(draft)", "run(draft, once=True)")


@FORMATS
def test_n7_a_draft_that_only_shows_what_is_there_adds_nothing(format_: str):
    text = "load\nload\n}\n}\nload\n"
    done = made(text, "// no changes before\n}\n}\nload\n// no changes here\n", format_, "store.py")
    assert done in (None, text)
