"""The state of git that commands left: what it holds, whether it may be taken over, and in which form."""
