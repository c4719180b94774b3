r"""`python -m mira_bench`."""

import sys

from .cli.command import main

sys.exit(main())
