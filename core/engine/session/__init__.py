"""An open session: made, recorded, run turn by turn, restored and closed."""
