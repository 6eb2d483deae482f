"""One file per command: parse, call, print. `main.py` finds and runs them."""
