"""The same 1,000 runs for TensorBoard and MLflow; run with the Python that has them.

python benchmarks/dashboard_peers.py tensorboard FOLDER RUNS
python benchmarks/dashboard_peers.py mlflow FOLDER RUNS
"""

from __future__ import annotations

import sys
from pathlib import Path

FIGURES = ("ready_s", "warmup_s", "captured_percent", "num_kv_blocks", "missed")


def make_tensorboard(folder: Path, runs: int) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    for number in range(runs):
        writer = EventFileWriter(str(folder / f"run_{number:04d}"))
        for name in FIGURES:
            for step in range(10):
                value = Summary.Value(tag=name, simple_value=float(number + step))
                event = Event(wall_time=1.76e9 + step, step=step)
                event.summary.CopyFrom(Summary(value=[value]))
                writer.add_event(event)
        writer.close()


def make_mlflow(folder: Path, runs: int) -> None:
    from mlflow.entities import Metric, Param
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlflow.db'}")
    experiment = client.create_experiment("warm-ups")
    print(experiment)
    for number in range(runs):
        run = client.create_run(experiment, run_name=f"run_{number:04d}")
        client.log_batch(
            run.info.run_id,
            metrics=[
                Metric(name, float(number), 1_760_000_000_000, 0) for name in FIGURES
            ],
            params=[Param(f"setting_{n}", str(number)) for n in range(5)],
        )
        client.set_terminated(run.info.run_id)


if __name__ == "__main__":
    make = {"tensorboard": make_tensorboard, "mlflow": make_mlflow}[sys.argv[1]]
    make(Path(sys.argv[2]), int(sys.argv[3]))
