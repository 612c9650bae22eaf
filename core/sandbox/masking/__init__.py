"""Secrets in ignored directories: while a command runs, an empty file that nobody may read stands for each."""
