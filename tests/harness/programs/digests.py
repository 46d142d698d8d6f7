"""Prints digests of simulated runs: `digests.py <first seed> <seeds>`. Needs nothing but msgspec and the simulator."""

import sys

from simulation import CASES, WORLDS, drawn, history_of, scenario_of


def main(first: int, seeds: int) -> None:
    for seed in range(first, first + seeds):
        scenario = scenario_of(CASES[seed % len(CASES)])
        world = list(WORLDS)[seed % len(WORLDS)]
        print(seed, history_of(scenario, drawn(scenario, seed, world), seed=seed, world=world).digest())


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
