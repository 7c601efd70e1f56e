#!/usr/bin/env python3
"""Draws what `skipjack simulate --json` or benchmarks/serve/jct.py measured: plot.py FILE.json... makes FILE.png beside each.

Needs matplotlib (Debian: python3-matplotlib).
"""
import json
import pathlib
import sys

PANELS = (("jct", "mean", "JCT mean, s"), ("jct", "p95", "JCT p95, s"),
          ("normalized_latency", "p95", "normalized latency p95, s/token"), ("ttft", "p95", "TTFT p95, s"))


def draw(path):
    """Figures over load, a line a policy. Says so and goes on where matplotlib is missing."""
    try:
        import matplotlib
    except ImportError:
        print("no plot: matplotlib is not installed", file=sys.stderr)
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot
    path = pathlib.Path(path)
    points = json.loads(path.read_text())["points"]
    figure, axes = pyplot.subplots(1, len(PANELS), figsize=(5 * len(PANELS), 4), layout="constrained")
    for axis, (quantity, statistic, label) in zip(axes, PANELS):
        for policy in dict.fromkeys(point["policy"] for point in points):
            line = sorted((p["load"], p[quantity][statistic]) for p in points if p["policy"] == policy)
            axis.plot(*zip(*line), marker="o", label=policy)
        axis.set(xlabel="load", ylabel=label, yscale="log")
        axis.grid(True, which="both", alpha=0.3)
    axes[0].legend()
    figure.savefig(path.with_suffix(".png"), dpi=110)
    pyplot.close(figure)
    print(f"plot: {path.with_suffix('.png')}")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        draw(name)
