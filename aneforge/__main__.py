"""`python -m aneforge` is the command `aneforge`."""

import sys

from .cli import main

sys.exit(main())
