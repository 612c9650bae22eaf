"""Tiers."""
