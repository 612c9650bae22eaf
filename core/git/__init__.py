"""Git for this program itself: run from one module, and never with the configuration of a repository.

A project may be hostile. So this package runs the `git` program on a directory of its own that represents the
repository (`repository`). GitPython writes the objects of temporary repositories (`tree_writer`), and reads nothing of
a project's repository:

- `Git.execute` starts git with all of this process's environment, where GIT_DIR, GIT_TRACE or GIT_CONFIG_KEY_0 decide
  what is read, written and run. This package passes an allow-list.
- `Repo(path)` accepts a `.git` file and a `commondir` wherever they point, and reads the configuration with all of its
  includes. `layout` accepts them only if the other end confirms the project.
- Its readers run in this process: a FIFO at `.git/config` or in `refs` blocks a thread for good, and the size of an
  unpacked object is unbounded. A program has a time-out and a bound on its output.
- It supports no SHA-256 names, no reftable and no index of version 4, which git handles like all others.

Its parsers of bytes were measured on 38 public repositories too (GitPython 3.2.1):

- Commits (`history`): 41,064 of 132,872 have other bytes after `Commit` has read and written them, mostly signed ones.
  A rebuilt commit has to retain its header byte by byte.
- Trees (`tree_entries`): 5 to 20 ms for 1,000 to 1,800 files, by one object per directory; `git ls-tree -r` takes 2 to
  3 ms with its start.
- The index (`index`): 6 times slower (4.5 to 8.3 ms for the same files, after an import of 160 ms that every session
  would wait for, since the index is read when it opens), and a name that is no UTF-8 is an error.
- Differences (`branch_diff`) go to the model as git writes them; nothing is parsed.
"""
