"""Patches and command blocks, one by one."""

# ruff: noqa: E501  (a case is a line)
from __future__ import annotations

ABC = "a\nb\nc\n"
PATCHES = [
    ("V4A", ABC, "*** Begin Patch\n*** Update File: file.txt\n@@\n a\n-b\n+B\n c\n*** End Patch", "a\nB\nc\n"),
    (
        "V4A with an anchor",
        "def a():\n    x = 1\n\ndef b():\n    x = 1\n",
        "*** Begin Patch\n*** Update File: file.txt\n@@ def b():\n-    x = 1\n+    x = 2\n*** End Patch",
        "def a():\n    x = 1\n\ndef b():\n    x = 2\n",
    ),
    (
        "V4A with two anchors",
        "class A:\n    def f(self):\n        x\n\nclass B:\n    def f(self):\n        x\n",
        "*** Begin Patch\n*** Update File: file.txt\n@@ class B:\n@@     def f(self):\n-        x\n+        y\n*** End Patch",
        "class A:\n    def f(self):\n        x\n\nclass B:\n    def f(self):\n        y\n",
    ),
    (
        "V4A of two hunks",
        ABC,
        "*** Begin Patch\n*** Update File: file.txt\n@@\n-a\n+A\n@@\n-c\n+C\n*** End Patch",
        "A\nb\nC\n",
    ),
    (
        "V4A at the end of the file",
        "a\nb\na\n",
        "*** Begin Patch\n*** Update File: file.txt\n@@\n-a\n+z\n*** End of File\n*** End Patch",
        "a\nb\nz\n",
    ),
    (
        "V4A adds lines at the end",
        ABC,
        "*** Begin Patch\n*** Update File: file.txt\n@@\n+d\n*** End Patch",
        "a\nb\nc\nd\n",
    ),
    ("V4A adds a file", None, "*** Begin Patch\n*** Add File: file.txt\n+x\n+\n+y\n*** End Patch", "x\n\ny\n"),
    ("V4A deletes a file", ABC, "*** Begin Patch\n*** Delete File: file.txt\n*** End Patch", ""),
    (
        "V4A moves a file",
        ABC,
        "*** Begin Patch\n*** Update File: file.txt\n*** Move to: other.txt\n@@\n-b\n+B\n*** End Patch",
        "a\nB\nc\n",
    ),
    (
        "V4A of two files",
        ABC,
        "*** Begin Patch\n*** Add File: x.txt\n+x\n*** Update File: file.txt\n@@\n-b\n+B\n*** End Patch",
        "a\nB\nc\n",
    ),
    (
        "V4A with white space lost",
        "a  \n\tb\nc\n",
        "*** Begin Patch\n*** Update File: file.txt\n@@\n a\n-\tb\n+\tB\n*** End Patch",
        "a  \n\tB\nc\n",
    ),
    (
        "V4A with a long dash",
        "a — b\nc\n",
        "*** Begin Patch\n*** Update File: file.txt\n@@\n a - b\n-c\n+C\n*** End Patch",
        "a — b\nC\n",
    ),
    (
        "V4A without a header of its hunk",
        ABC,
        "*** Begin Patch\n*** Update File: file.txt\n a\n-b\n+B\n*** End Patch",
        "a\nB\nc\n",
    ),
    ("V4A without its end", ABC, "*** Begin Patch\n*** Update File: file.txt\n@@\n-b\n+B\n", "a\nB\nc\n"),
    ("unified", ABC, "--- a/file.txt\n+++ b/file.txt\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", "a\nB\nc\n"),
    (
        "unified with wrong numbers",
        ABC,
        "--- a/file.txt\n+++ b/file.txt\n@@ -71,9 +80,2 @@ f()\n a\n-b\n+B\n c\n",
        "a\nB\nc\n",
    ),
    ("unified without numbers", ABC, "--- file.txt\n+++ file.txt\n@@ ... @@\n a\n-b\n+B\n c\n", "a\nB\nc\n"),
    ("unified in a fence", ABC, "```diff\n--- file.txt\n+++ file.txt\n@@ @@\n-b\n+B\n```\n", "a\nB\nc\n"),
    (
        "git",
        ABC,
        "diff --git a/file.txt b/file.txt\nindex 1..2 100644\n--- a/file.txt\n+++ b/file.txt\n@@ -1,3 +1,4 @@\n a\n b\n+x\n c\n",
        "a\nb\nx\nc\n",
    ),
    (
        "git new file",
        None,
        "diff --git a/file.txt b/file.txt\nnew file mode 100644\n--- /dev/null\n+++ b/file.txt\n@@ -0,0 +1,2 @@\n+x\n+y\n",
        "x\ny\n",
    ),
    (
        "git rename with a change",
        ABC,
        "diff --git a/file.txt b/new.txt\nsimilarity index 90%\nrename from file.txt\nrename to new.txt\n--- a/file.txt\n+++ b/new.txt\n@@ -2 +2 @@\n-b\n+B\n",
        "a\nB\nc\n",
    ),
    ("git mode", ABC, "diff --git a/file.txt b/file.txt\nold mode 100644\nnew mode 100755\n", ABC),
    (
        "unified two hunks",
        "a\nb\nc\nd\ne\nf\n",
        "--- a/file.txt\n+++ b/file.txt\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n@@ -5,2 +5,2 @@\n e\n-f\n+F\n",
        "A\nb\nc\nd\ne\nF\n",
    ),
    (
        "unified chooses by its number",
        "x\na\ny\na\n",
        "--- a/file.txt\n+++ b/file.txt\n@@ -4 +4 @@\n-a\n+b\n",
        "x\na\ny\nb\n",
    ),
    (
        "unified takes the newline away",
        ABC,
        "--- a/file.txt\n+++ b/file.txt\n@@ -3 +3 @@\n-c\n+c\n\\ No newline at end of file\n",
        "a\nb\nc",
    ),
    ("unified on CRLF", "a\r\nb\r\n", "--- a/file.txt\n+++ b/file.txt\n@@ -1,2 +1,2 @@\n a\n-b\n+B\n", "a\r\nB\r\n"),
]
PATCHES_REFUSED = [
    ("no patch", ABC, "b becomes B"),
    ("context that does not exist", ABC, "*** Begin Patch\n*** Update File: file.txt\n@@\n-x\n+y\n*** End Patch"),
    ("two places", "a\nb\na\n", "*** Begin Patch\n*** Update File: file.txt\n@@\n-a\n+x\n*** End Patch"),
    (
        "another file",
        ABC,
        "*** Begin Patch\n*** Update File: x.txt\n@@\n-b\n+B\n*** Update File: y.txt\n@@\n-b\n+B\n*** End Patch",
    ),
    ("an update without changes", ABC, "*** Begin Patch\n*** Update File: file.txt\n*** End Patch"),
    ("a line without a sign", ABC, "*** Begin Patch\n*** Update File: file.txt\n@@\nb\n*** End Patch"),
    ("a file that exists is added", ABC, "*** Begin Patch\n*** Add File: file.txt\n+x\n*** End Patch"),
    ("an update of no file", None, "*** Begin Patch\n*** Update File: file.txt\n@@\n-b\n+B\n*** End Patch"),
    ("the second hunk fails", ABC, "*** Begin Patch\n*** Update File: file.txt\n@@\n-a\n+A\n@@\n-x\n+y\n*** End Patch"),
]
COMMANDS = [
    ("bash", "THOUGHT: look\n\n```bash\nls -la\n```\n", "ls -la"),
    ("PowerShell", "```powershell\nGet-ChildItem\n```", "Get-ChildItem"),
    ("PowerShell before bash", "```bash\nls\n```\n```powershell\ndir\n```", "dir"),
    ("several lines", "```bash\ncd x &&\n  make\n```", "cd x &&\n  make"),
    ("another fence beside it", "```python\nx\n```\n```bash\nls\n```", "ls"),
]
COMMANDS_REFUSED = [
    ("none", "I am done."),
    ("two", "```bash\nls\n```\n```bash\npwd\n```"),
    ("two of PowerShell", "```powershell\na\n```\n```powershell\nb\n```\n```bash\nls\n```"),
    ("not closed", "```bash\nls\n"),
    ("another language", "```python\nls\n```"),
]
