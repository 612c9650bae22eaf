"""Subcommands that keep an installation in order: its configuration, what it leaves behind, and reports of faults."""
