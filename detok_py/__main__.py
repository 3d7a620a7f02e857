"""`python -m detok_py` is the `detok` command."""

import sys

from detok_py.cli import main

if __name__ == "__main__":
    sys.exit(main())
