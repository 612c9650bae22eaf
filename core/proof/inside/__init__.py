"""Modules that run inside a check: this directory is on the path of the project's own Python, from version 3.8 on."""
