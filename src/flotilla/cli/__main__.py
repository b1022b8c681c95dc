"""`python -m flotilla.cli`: the command without its script, as processes of this package start each other."""

from flotilla.cli.app import main

if __name__ == "__main__":
    main()
