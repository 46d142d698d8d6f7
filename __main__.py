"""`python -m streamproof` is the command `streamproof`."""

from .harness.command_line.cli import main

if __name__ == "__main__":
    main()
