"""The network of a box: one proxy to the hosts that were granted."""
