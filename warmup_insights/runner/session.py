"""One run of the reference engine from opening the device to the last event."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from warmup_insights.devices.base import Device, DeviceOutOfMemory
from warmup_insights.devices.simulated import SimulatedDevice
from warmup_insights.errors import WarmupInsightsError
from warmup_insights.model.events import (
    ConfigRecorded,
    Failure,
    Note,
    RunFinished,
    RunStarted,
    ShutdownRequested,
)
from warmup_insights.rules.memory import NoCacheRoom
from warmup_insights.rules.model_shape import ModelShape, find_shape
from warmup_insights.runner.engine import Emitter, Engine, Sink
from warmup_insights.runner.serving import Server
from warmup_insights.runner.settings import RunSettings
from warmup_insights.runner.warmup import Warmup
from warmup_insights.runner.workload import Request, WorkloadSettings, load_requests
from warmup_insights.version import __version__


@dataclass(frozen=True)
class Outcome:
    """How a run ended: `finished`, `skipped`, `failed` or `stopped`, and why it did not
    come to its end."""

    status: str
    error: str | None = None


def make_engine(
    device: Device, shape: ModelShape, folder: Path | None, settings: RunSettings
) -> Engine:
    """The engine that runs this model on this device."""
    if isinstance(device, SimulatedDevice):
        from warmup_insights.runner.simulated_engine import SimulatedEngine

        return SimulatedEngine(
            device, shape, block_size=settings.block_size, dtype=settings.dtype
        )
    from warmup_insights.runner.torch_engine import TorchEngine

    return TorchEngine(
        device,
        shape,
        block_size=settings.block_size,
        dtype=settings.dtype,
        seed=settings.seed,
        folder=folder,
        contiguous=settings.contiguous_pa,
    )


class Session:
    """A device, an engine and the events of one run."""

    def __init__(
        self,
        device: Device,
        settings: RunSettings,
        sink: Sink,
        workload: WorkloadSettings | None = None,
    ) -> None:
        shape, folder = find_shape(settings.model)
        self.device = device
        self.settings = settings
        self.shape = shape
        self.emitter = Emitter(sink, device)
        self.engine = make_engine(device, shape, folder, settings)
        self.warmup = Warmup(self.engine, settings, self.emitter)
        self.workload = workload
        self.requests: list[Request] = []
        if workload is not None:
            self.requests = load_requests(
                workload,
                vocab_size=shape.vocab_size,
                max_model_len=settings.max_model_len,
            )
        self.tokens: dict[int, list[int]] = {}
        """Request id to what it was served."""
        self._is_ready = False

    def run(self) -> Outcome:
        """Start up, and end with RunFinished whatever happens.

        A failure that has a sentence, and a signal that ends the run, are named in the
        outcome. Any other error ends the run as failed and is raised again.
        """
        self._emit_start()
        try:
            self.warmup.start()
            self._is_ready = True
            self._note_graph_memory()
            if self.workload is not None:
                server = Server(self.warmup, self.shape.name)
                rate = self.workload.request_rate
                self.tokens = server.serve(self.requests, request_rate=rate)
        except DeviceOutOfMemory as error:
            return self._failed(
                "out_of_memory",
                f"{self._where()}: {error}",
                error.free_bytes,
                error.needed_bytes,
            )
        except NoCacheRoom as error:
            free = self.warmup.budget.free_bytes
            return self._failed("no_kv_cache", str(error), free)
        except WarmupInsightsError as error:
            return self._failed("error", str(error))
        except KeyboardInterrupt as signal:
            return self._stopped(str(signal))
        except BaseException as error:
            self._failed("error", f"{type(error).__name__}: {error}")
            raise
        status = "skipped" if self.settings.skip_warmup else "finished"
        self.emitter.emit(RunFinished, status=status)
        return Outcome(status)

    def _emit_start(self) -> None:
        self.emitter.emit(
            RunStarted,
            engine="reference",
            version=__version__,
            model=self.shape.name,
            device_kind=self.device.kind,
            device_name=self.device.name,
            synthetic=self.device.is_synthetic,
        )
        workload = {} if self.workload is None else self.workload.as_config()
        config = {**self.settings.as_config(), **workload, **self.device.settings()}
        self.emitter.emit(
            ConfigRecorded,
            settings=config,
            environment=dict(self.settings.environment),
            num_ranks=1,
        )

    def _note_graph_memory(self) -> None:
        """Record what graphs keep by three counters, where there is more than one."""
        reading, storages = self.device.memory(), self.engine.graph_bytes()
        if not storages or self.device.kind != "cpu":
            return
        values = {
            "storage_bytes": storages,
            "used_bytes": reading.used_bytes,
            "resident_bytes": reading.resident_bytes,
        }
        text = "Memory of the graphs by their tensors, of the run by malloc, and RSS."
        self.emitter.emit(Note, topic="graph_memory_counters", text=text, values=values)

    def _stopped(self, signal: str) -> Outcome:
        """Ctrl-C, or the signal with this name, ended the run."""
        message = f"interrupted by {signal or 'SIGINT'}"
        if self._is_ready:
            message += " while it served"
        else:
            message += f" in {self._where()}"
        self.emitter.emit(
            ShutdownRequested, message=message, in_start=not self._is_ready
        )
        self.emitter.emit(RunFinished, status="stopped")
        return Outcome("stopped", message)

    def _where(self) -> str:
        stage, bucket = self.emitter.stage, self.emitter.bucket
        return f"{stage} {bucket}" if bucket else stage

    def _failed(
        self,
        kind: str,
        message: str,
        free: int | None = None,
        needed: int | None = None,
    ) -> Outcome:
        self.emitter.emit(
            Failure,
            failure=kind,
            message=message,
            phase=self.emitter.stage,
            bucket=self.emitter.bucket,
            free_bytes=free,
            needed_bytes=needed,
        )
        self.emitter.emit(RunFinished, status="failed")
        return Outcome("failed", message)
