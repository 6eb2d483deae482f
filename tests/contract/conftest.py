"""Puts tests/trainer on the path, so that these tests can `import tiny`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "trainer"))
