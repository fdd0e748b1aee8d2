"""Every folder of the corpus gives what its README asks for, checked in substance.

Where a figure is compared, the other side is counted here from protobuf's own parse of the file.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest

import traceanalyzer as ta
from tests.corpus import CORPUS, needs_corpus
from tests.tables.reading import rows
from tests.xspace_proto import XSpace
from traceanalyzer.diagnosis import diagnose
from traceanalyzer.model import Report
from traceanalyzer.report.assemble import assemble
from traceanalyzer.run import Run

pytestmark = needs_corpus


@lru_cache(maxsize=4)
def run_of(folder: str, name: str | None = None) -> Run:
    if not (CORPUS / folder).is_dir():
        pytest.skip(f"{folder} is not in the corpus")
    return ta.load(CORPUS / folder, run=name)


@lru_cache(maxsize=4)
def report_of(folder: str, name: str | None = None) -> Report:
    return assemble(diagnose(run_of(folder, name)))


def health(report: Report) -> dict[str, str]:
    return {h.id: h.message for h in report.health}


def parsed(run: Run) -> Any:  # noqa: ANN401  # a protobuf message
    """The file of the run's only host, by protobuf."""
    (host,) = run.hosts
    assert host.file is not None
    space = XSpace()
    space.ParseFromString(host.file.path.read_bytes())
    return space


def device_events(space: Any) -> Iterator[tuple[str, str, dict[str, Any], int]]:  # noqa: ANN401
    """Plane, name, stats and duration of each event on a stream of a GPU."""
    for plane in space.planes:
        if plane.name.startswith("/device:GPU:"):
            for line in plane.lines:
                if line.name.startswith("Stream #"):
                    for event in line.events:
                        name = plane.event_metadata[event.metadata_id].name
                        yield plane.name, name, stats_of(plane, event), event.duration_ps


def stats_of(plane: Any, event: Any) -> dict[str, Any]:  # noqa: ANN401
    found = {}
    for stat in event.stats:
        kind = stat.WhichOneof("value")
        value = getattr(stat, kind) if kind else None
        if kind == "ref_value":
            value = plane.stat_metadata[value].name
        found[plane.stat_metadata[stat.metadata_id].name] = value
    return found


def host_op_names(space: Any) -> set[str]:  # noqa: ANN401
    """Distinct `name:Type` of the op events on the host's threads."""
    names = set()
    for plane in space.planes:
        if plane.name == "/host:CPU":
            for line in plane.lines:
                for event in line.events:
                    told = plane.event_metadata[event.metadata_id]
                    if told.display_name and told.name.endswith(f":{told.display_name}"):
                        names.add(told.name)
    return {n for n in names if not n.startswith("Iterator::")}


@pytest.mark.slow
class TestMultiworker:
    """8 x V100, level 3, two byte-identical hosts; GPUs 4 and 6 at work, 19 copies to GPU 1."""

    FOLDER = "tfgpu-tfprofiler-multiworker"

    def test_the_second_host_is_counted_once_and_noticed(self) -> None:
        run = run_of(self.FOLDER)

        assert [h.name for h in run.hosts] == ["34.83.195.179_6003"]
        assert [(f.host, f.is_duplicate) for f in run.failures] == [("34.83.195.180_6003", True)]
        assert "34.83.195.180_6003" in health(report_of(self.FOLDER))["duplicate_host"]

    def test_five_idle_gpus_are_named(self) -> None:
        report = report_of(self.FOLDER)

        assert re.findall(r"GPU:(\d)", health(report)["idle_devices"]) == ["0", "2", "3", "5", "7"]
        kernels = {d.name[-1]: d.kernels for d in report.run.devices if d.kind == "gpu"}
        assert {gpu: count for gpu, count in kernels.items() if count} == {"4": 665, "6": 665}
        assert len(kernels) == 8

    def test_the_report_calls_nothing_harmful(self) -> None:
        report = report_of(self.FOLDER)

        assert {(f.cause, f.certainty, f.harm) for f in report.findings} == {
            ("host_pipeline", "likely", "by_design")
        }
        assert (report.summary.cpu_ops, report.unexplained.ops_total) == (0, 0)
        assert "No op of the model is known to run on the CPU" in report.summary.verdict
        assert "For 820 ops" in report.summary.verdict
        assert "820 ops" in health(report)["placement_unknown"]

    def test_each_kernel_is_linked_to_the_op_of_its_annotation(self) -> None:
        run = run_of(self.FOLDER)
        told = Counter(
            (plane, name, stats["annotation"].partition("#")[0])
            for plane, name, stats, _ in device_events(parsed(run))
            if not name.startswith("Memcpy")
        )

        assert Counter(rows(run.kernels, "device", "name", "op")) == told

    def test_ops_without_a_kernel_are_not_called_cpu_ops(self) -> None:
        """3343 of the 4697 distinct `name:Type` on the host have no event of a GPU.

        Counted as xplane.md does: an event of a GPU is any kernel or copy whose annotation begins
        with that name. At level 3 an op on a GPU leaves a host event too, so the lack of a kernel
        is no reason to call it a CPU op; nor is a host event.
        """
        run = run_of(self.FOLDER)
        space = parsed(run)
        on_gpu = {
            re.split("#|::", stats["annotation"])[0]
            for *_, stats, _ in device_events(space)
            if "annotation" in stats
        }
        on_host = host_op_names(space)
        without = on_host - on_gpu
        assert (len(on_host), len(without)) == (4697, 3343)

        labels = run.ops["name"].astype(str) + ":" + run.ops["type"].astype(str)
        mine = run.ops[labels.isin(without)]

        assert set(labels[mine.index]) == without
        assert (mine["kernels"] == 0).all()
        assert not mine["placement_source"].isin({"host_event", "no_gpu"}).any()
        assert mine[(mine["placement"] == "cpu") & (mine["role"] == "compute")].empty
        assert report_of(self.FOLDER).summary.cpu_ops == 0

    def test_what_tf_data_runs_for_an_iterator_on_a_gpu_is_not_certainly_on_the_cpu(self) -> None:
        """The functions of a multi-device iterator ran on the GPUs' own threads."""
        ops = run_of(self.FOLDER).ops
        certain = ops[(ops["placement"] == "cpu") & (ops["placement_certainty"] == "certain")]

        # What TensorFlow computes ahead, to make its graphs ready, does so on the CPU alone.
        assert set(certain["function"]) == {"constant folding"}
        assert set(certain["role"]) == {"runtime"}


@pytest.mark.slow
class TestFatma:
    """One Turing GPU, partly float16 with a loss scale: predicates are read back each step."""

    FOLDER = "tfgpu-fatma-cnn-sandor"

    def test_its_predicates_are_copied_by_these_ops(self) -> None:
        """A predicate that is read back halts the step: two a step, of a byte each."""
        graph = run_of(self.FOLDER, "2021_02_02_12_57_01").transfer_graph
        back = {
            graph.nodes[producer]["label"].split(":")[0]: copies
            for producer, _, direction, copies in graph.edges(keys=True, data=True)
            if direction == "d2h"
        }
        for predicate in ("All_10", "cond/then/_0/cond/GreaterEqual"):
            assert (back[predicate]["count"], back[predicate]["bytes"]) == (21, 21)


class TestCpuOnGpuHost:
    """The same machine after an upgrade: a GPU plane with hardware facts and no events."""

    FOLDER = "tfcpu-on-gpu-host-fatma"

    @pytest.mark.parametrize("name", ["2021_02_03_21_48_13"])
    def test_everything_ran_on_the_cpu_although_a_gpu_is_there(self, name: str) -> None:
        run, report = run_of(self.FOLDER, name), report_of(self.FOLDER, name)

        assert set(run.ops["placement"]) == {"cpu"}
        assert not run.gpu_used
        assert run.hosts[0].tables.facts.accelerators == {"/device:GPU:0": 0}
        (told,) = (f for f in report.findings if f.cause == "no_gpu_visible")
        assert (told.sub_reason, told.certainty) == ("gpu_described_but_unused", "likely")
        assert told.ops_total == report.summary.cpu_ops
        assert "although the machine has one" in report.summary.verdict
        assert "/device:GPU:0" in health(report)["device_plane_empty"]
        assert not run.hosts[0].tables.facts.gpu_may_be_missed
        kinds = set(run.ops["type"])
        assert {"Conv2DBackpropFilter", "MatMul", "ResourceApplyAdam"} <= kinds
        assert "The profiler found a GPU" in told.why
        assert not any("tracer was off" in e.text for e in told.evidence)
        assert told is max(report.findings, key=lambda f: f.cost.host_us)


class TestMac:
    """Metal: no device plane; seen through sends and allocations."""

    FOLDER = "tfmac-chiyo-dogsvscats"

    def test_a_gpu_was_used_whose_kernels_are_not_in_the_trace(self) -> None:
        run, report = run_of(self.FOLDER), report_of(self.FOLDER)

        assert run.hosts[0].tables.facts.pluggable_used
        assert "A pluggable device (such as Metal) was used" in report.summary.verdict
        assert [d.kind for d in report.run.devices] == ["pluggable", "cpu"]
        assert {(f.cause, f.harm) for f in report.findings} == {("host_pipeline", "by_design")}
        assert "its kernels are not in the trace" in health(report)["pluggable_device"]
        assert not any(f.cause == "no_gpu_visible" for f in report.findings)


@pytest.mark.slow
class TestJax:
    """XLA ops and kernels: no question of TensorFlow's placement."""

    @pytest.mark.parametrize(
        "folder",
        ["jax-rocm-attention", "jax-rocm-conv08", "jax-rocm-convlegacy", "jax-rocm-elementwise"],
    )
    def test_on_rocm(self, folder: str) -> None:
        run, report = run_of(folder), report_of(folder)

        assert set(run.ops["placement"]) == {"xla"}
        assert (run.kernels["op_id"].notna()).mean() > 0.9
        assert "compiled by XLA, ran on the GPU" in report.summary.verdict
        assert report.findings == ()
        assert report.summary.explained_share is None

    def test_on_a_tpu(self) -> None:
        run, report = run_of("tpu-xprof-inference2"), report_of("tpu-xprof-inference2")

        assert set(run.ops["placement"]) == {f"tpu:{n}" for n in range(4)}
        assert run.kernels["op_id"].notna().all()
        assert "no TensorFlow op ran on the CPU" in report.summary.verdict
        assert {d.kind for d in report.run.devices} == {"tpu", "cpu"}
        (status,) = (r for r in report.rules if r.cause == "no_gpu_visible")
        assert (status.status, status.reason) == ("not_applicable", "the run used TPUs")
