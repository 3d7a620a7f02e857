"""Run seeds of the simulation, and show what happened in one: `replay.py SEED` or `FIRST LAST`.

One seed prints its plan and its trace. If it breaks a law, the plan is printed once more with as
few faults as still break one.
"""

import argparse
import logging
import sys
import time
from dataclasses import replace

from simulated_cluster import run_plan
from simulated_plan import make_plan


def fewest_faults(seed):
    """Return the plan of a seed with the fewest faults that still break a law."""
    plan = make_plan(seed)
    at = 0
    while at < len(plan.faults):
        fewer = plan.faults[:at] + plan.faults[at + 1 :]
        if run_plan(replace(plan, faults=fewer)).wrong:
            plan = replace(plan, faults=fewer)
        else:
            at += 1
    return plan


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("first", type=int, metavar="SEED")
    parser.add_argument("last", type=int, nargs="?", help="run all seeds up to this one")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    begun = time.process_time()
    last = given.first if given.last is None else given.last
    seeds = range(given.first, last + 1)
    if not seeds:
        parser.error(f"there is no seed from {given.first} to {last}")
    wrong = 0
    for seed in seeds:
        cluster = run_plan(make_plan(seed))
        if len(seeds) == 1:
            print(cluster.plan)
            for at, *words in cluster.trace:
                print(f"  {at:9.4f}", *words)
        if cluster.wrong:
            wrong += 1
            print(f"seed {seed}:", *cluster.wrong, sep="\n  ")
            if len(seeds) == 1:
                print(fewest_faults(seed))
    seconds = time.process_time() - begun
    print(f"{wrong} of {len(seeds)} seeds are wrong; {seconds:.1f} s")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
