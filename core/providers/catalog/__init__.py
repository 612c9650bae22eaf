"""What is known of providers and models: what they can do, what they cost."""
