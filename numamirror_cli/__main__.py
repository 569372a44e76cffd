"""`python -m numamirror_cli`."""

from numamirror_cli.cli import main

main()
