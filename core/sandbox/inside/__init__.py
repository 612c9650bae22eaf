"""Inside."""
