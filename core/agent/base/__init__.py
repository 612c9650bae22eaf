"""The parts that every stage of a turn uses: the user, permissions, models, limits, and the tags of prompts."""
