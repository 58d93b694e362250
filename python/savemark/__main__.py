"""`python -m savemark`: for where the command is not on the PATH."""

from savemark.cli import main

if __name__ == "__main__":
    main()
