"""The parts that the wire protocols share: values, calls, request bodies."""
