"""Files at checkpoints: what a restore needs beside the layers."""
