"""How much proof finds: faults that leave "tests passed" green, seeded into commits of public repositories."""
