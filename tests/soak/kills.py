"""Kill runs at random instants, again and again: `python tests/soak/kills.py --kills 200 --seed 1`.

Ends with status 1 when any number of any run isn't, to the bit, that of a run that nothing happened to.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from jtrain.engine import zygote
from tests.soak.victims import Tally, begin, compare, torment


def soak(kills: int, seed: int, epochs: int) -> Tally:
    """Kill until there were `kills` kills."""
    chance, tally = random.Random(seed), Tally()
    straight = begin(epochs, 0.0)
    straight.wait(timeout=120)
    while tally.num_kills < kills:
        run = begin(epochs, chance.choice((0.0, 0.003, 0.01)))
        torment(run, chance, tally, most=chance.randint(3, 12))
        compare(run, straight, tally)
        print(f"{tally.num_kills:4d} kills  {run.id}: {run.shown_state} in {len(run.attempts)} attempts", flush=True)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="at least so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=8, help="of 4 optimizer steps")
    arguments = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="jtrain-soak-") as folder:
        os.environ.update(JTRAIN_HOME=f"{folder}/home", JTRAIN_MACHINE_DIR=f"{folder}/machine", OMP_NUM_THREADS="1")
        zygote.start_for_kernel()
        try:
            tally = soak(arguments.kills, arguments.seed, arguments.epochs)
        finally:
            zygote.close_for_kernel()
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(tally.kills.items()))
    print(
        f"{tally.num_kills} kills ({kinds}), {tally.during_write} while a checkpoint was written or removed, in "
        f"{tally.runs} runs and {time.monotonic() - began:.0f} s; {len(tally.wrong)} things were wrong"
    )
    for line in tally.wrong:
        print("WRONG:", line)
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
