"""`python -m mobuild`: the console script without an installed one."""

from mobuild.cli import main

if __name__ == "__main__":
    main()
