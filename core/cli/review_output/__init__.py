"""What waits for a review, as other programs read it."""
