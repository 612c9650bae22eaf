"""The state of git that commands left: its preview, its checks, and the layer that accepting it writes."""
