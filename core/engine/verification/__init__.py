"""What is verified before it is accepted: which files, by which checks, and what becomes of them."""
