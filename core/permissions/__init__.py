"""What the user has allowed and refused: rules, answers that are remembered, trust, and the record of all of it."""
