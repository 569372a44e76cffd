"""Runs inside the guest: prints the memory policy and the CPUs that it was started with, as JSON.
Arguments are not looked at."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from numamirror_cli.memory.policy import current_policy

print(json.dumps([str(current_policy()), sorted(os.sched_getaffinity(0))]))
