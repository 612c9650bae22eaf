"""Promotion."""
