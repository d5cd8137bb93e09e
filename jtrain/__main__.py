"""`python -m jtrain` is the program `jtrain`."""

import sys

from jtrain.cli import main

sys.exit(main())
