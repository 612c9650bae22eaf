"""What the protocols share: texts, calls, bytes."""
