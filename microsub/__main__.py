"""`python -m microsub`, the same as the command `microsub`."""

from microsub.cli import main

main()
