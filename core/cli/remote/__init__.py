"""Subcommands by which a running engine is reached from outside its screen."""
