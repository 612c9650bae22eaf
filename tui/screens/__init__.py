"""The screens: the main one, and what comes up over it for a moment."""
