r"""`python -m mira_bench`."""

import sys

from .cli import main

sys.exit(main())
