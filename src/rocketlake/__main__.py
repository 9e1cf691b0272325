"""`python -m rocketlake` is the command line."""

from __future__ import annotations

from rocketlake.cli.main import main

if __name__ == "__main__":
    main()
