"""`python -m mygym` is `mygym`."""

from mygym.cli.main import main

if __name__ == "__main__":
    main()
