"""The parts that the protocols share: texts, calls, bytes."""
