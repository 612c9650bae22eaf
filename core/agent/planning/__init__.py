"""Plans and todos during a turn: kept in step with their files, and completed when they are proved."""
