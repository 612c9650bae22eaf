"""Performance, measured as ratios in one run on one machine; `make bench` runs all of it."""
