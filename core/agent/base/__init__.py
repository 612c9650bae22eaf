"""What every stage of a turn builds on: the user, permissions, models, limits, and the tags of prompts."""
