"""Stand-in for the metrics of the bridge."""

from __future__ import annotations

from standin import DEVICE


class _Metric:
    def stats(self):
        return [
            ("TotalNumber", DEVICE.graphs),
            ("TotalTime", DEVICE.compile_us),
            ("AvgTime", 0),
            ("RecipeNames", []),
        ]


def metric_global(name):
    assert name == "graph_compilation"
    return _Metric()
