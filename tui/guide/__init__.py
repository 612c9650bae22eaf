"""The line above the prompt: a step of the tour, else a hint that fits what has just happened."""
