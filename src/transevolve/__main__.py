"""`python -m transevolve`."""

import sys

from transevolve_cli import main

sys.exit(main())
