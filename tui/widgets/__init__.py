"""Widgets and rows that several panes share."""
