"""Promotion: journalled, atomic writes of accepted content into the user's files."""
