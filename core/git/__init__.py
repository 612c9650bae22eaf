"""Git for this program itself: run in one place, and never with the configuration of a repository.

A project may be hostile. So the `git` program is asked, on a directory of ours that stands for the repository
(`repository`), and GitPython, which is at hand, is not used for it:

- `Git.execute` starts git with all of this process's environment, where GIT_DIR, GIT_TRACE or GIT_CONFIG_KEY_0 decide
  what is read, written and run. What is started here gets an allow-list.
- `Repo(path)` believes a `.git` file and a `commondir` wherever they point, and reads the configuration with all that
  it includes. `layout` believes them only if the other end says the same.
- Its readers run in this process: a FIFO at `.git/config` or in `refs` stops a thread for good, and nothing bounds what
  an object unpacks to. A program has a time-out and a bound on its answer.
- It takes no SHA-256 names, no reftable and no index of version 4, which git answers for as for all others.
- Importing it takes longer than a status does, and starts the first `git` on PATH, which may be one of the project.
"""
