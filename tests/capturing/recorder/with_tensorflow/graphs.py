"""TensorFlow's dumps: asked for in the C library's environment alone; those needed are kept."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from traceanalyzer.capturing.recorder import dumps as graphs
from traceanalyzer.capturing.recorder.dumps import Dumps
from traceanalyzer.capturing.recorder.hooks import JournalWriter

KEPT = {
    "__inference_f_91.0005.main.before_placer.pb",
    "__inference_f_91.0012.main.before_post_placement_passes.pb",
    "__inference_f_91_partition__job:localhost_device:CPU:0.0003.main.after_partition_passes.pb",
}
NOT_KEPT = {
    "__inference_f_91.0001.main.initial.pb",
    "__inference_f_91.0006.main.after_placer.pb",
    "__inference_f_91.0007.main.mlir_op_graph.mlir",
    "__inference_f_91colocation_graph.txt",
    "something.else",
}


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the C library's environment is given, instead of giving it to this process."""
    found: dict[str, str] = {}
    own = SimpleNamespace(**vars(os))
    own.putenv = found.__setitem__
    own.unsetenv = found.__delitem__
    own.register_at_fork = lambda **_: None
    monkeypatch.setattr(graphs, "os", own)
    for name in ("TF_CPP_VMODULE", "TF_DUMP_GRAPH_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    return found


@pytest.fixture
def dumps(tmp_path: Path, variables: dict[str, str]) -> Iterator[Dumps]:
    del variables
    found = Dumps(str(tmp_path / "graphs"), JournalWriter(str(tmp_path / "journal")))
    yield found
    found.finish()


def _write(folder: Path, names: set[str]) -> None:
    for name in names:
        (folder / name).write_bytes(b"x")


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def _wait(until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_dumps_that_nobody_needs_are_deleted_as_they_come(tmp_path: Path, dumps: Dumps) -> None:
    dumps.ask()
    folder = tmp_path / "graphs"
    _write(folder, KEPT | NOT_KEPT)
    dumps.expect()
    _wait(lambda: _names(folder) == KEPT)
    dumps.finish()
    _write(folder, NOT_KEPT)
    dumps.finish()
    assert _names(folder) == KEPT


def _is_on(variables: dict[str, str]) -> bool:
    return Path(variables["TF_DUMP_GRAPH_PREFIX"]).is_dir()


class TestResting:
    """Dumps that fail cost nothing: so they do while nothing new is expected."""

    def test_while_a_dataset_is_not_iterated(
        self, dumps: Dumps, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(graphs, "_WAIT_FOR_DATASETS_S", 0.2)
        dumps.ask()
        dumps.defined("__inference_Dataset_map_parse_7")
        _wait(lambda: not _is_on(variables))
        dumps.iterated()
        assert _is_on(variables)

    def test_although_functions_like_earlier_ones_come_all_the_time(
        self, tmp_path: Path, dumps: Dumps, variables: dict[str, str]
    ) -> None:
        """As in a loop of `model.predict`, which makes its datasets again each time."""
        dumps.ask()
        dumps.repeated("__inference_Dataset_map_f_91")
        _write(tmp_path / "graphs", {"__inference_Dataset_map_f_91.0005.main.before_placer.pb"})
        dumps.expect()
        _wait(lambda: not _is_on(variables))
        assert not _names(tmp_path / "graphs")


def test_the_prefix_names_the_folder_and_then_nothing(
    tmp_path: Path, dumps: Dumps, variables: dict[str, str]
) -> None:
    before = dict(os.environ)
    dumps.ask()
    assert dict(os.environ) == before
    prefix = variables.pop("TF_DUMP_GRAPH_PREFIX")
    assert variables.pop("TF_CPP_MIN_LOG_LEVEL") == "1"
    assert variables == {"TF_DUMP_GRAPH_FMT": "BIN", "TF_DUMP_GRAPH_NAME_FILTER": "*"}
    assert os.path.realpath(prefix) == str(tmp_path / "graphs")
    assert int(Path(prefix).name) >= 200
    told = subprocess.run(
        [sys.executable, "-c", f"import os; print(os.path.exists({prefix!r}))"],
        capture_output=True,
        text=True,
        check=True,
        close_fds=False,
    )
    assert told.stdout == "False\n"
    dumps.finish()
    with pytest.raises(OSError, match="Not a directory"):
        (Path(prefix) / "graph.pb").write_bytes(b"")


def test_a_fork_of_the_program_dumps_nothing(tmp_path: Path) -> None:
    program = f"""
import os
from traceanalyzer.capturing.recorder.dumps import Dumps
from traceanalyzer.capturing.recorder.hooks import JournalWriter
os.putenv = lambda name, value: prefixes.setdefault(name, value)
prefixes = {{}}
dumps = Dumps({str(tmp_path / "graphs")!r}, JournalWriter({str(tmp_path / "journal")!r}))
dumps.ask()
prefix = prefixes["TF_DUMP_GRAPH_PREFIX"]
if os.fork() == 0:
    dumps.expect()
    os._exit(os.path.isdir(prefix))
print(os.wait()[1], os.path.isdir(prefix))
"""
    command = [sys.executable, "-W", "ignore", "-c", program]
    assert subprocess.check_output(command, text=True) == "0 True\n"


def test_a_program_that_wants_its_own_dumps_has_them(
    tmp_path: Path, dumps: Dumps, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_DUMP_GRAPH_PREFIX", "/srv/user/dumps")
    dumps.ask()
    dumps.taken()
    dumps.expect()
    assert variables == {}
    assert not (tmp_path / "graphs").exists()
    assert "graphs_left_out" in (tmp_path / "journal").read_text()


def test_too_many_bytes_end_the_dumps(
    tmp_path: Path, dumps: Dumps, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs, "_MOST_BYTES", 2)
    dumps.ask()
    _write(tmp_path / "graphs", KEPT)
    dumps.expect()
    _wait(lambda: not Path(variables["TF_DUMP_GRAPH_PREFIX"]).is_dir())
    _wait((tmp_path / "journal").exists)
    (note,) = map(json.loads, (tmp_path / "journal").read_text().splitlines())
    assert (note["id"], note["severity"]) == ("graphs_left_out", "warning")
    assert _names(tmp_path / "graphs") == KEPT


def test_dumps_of_further_graphs_of_sessions_get_the_number_of_their_graph(
    dumps: Dumps, tmp_path: Path
) -> None:
    folder = tmp_path / "graphs"
    folder.mkdir()
    placed = "unknown_graph.{}.main.after_opt_group_pre_placement.pb".format
    ran = "unknown_graph_partition__job_x.{}.main.after_opt_group_post_partitioning.pb".format
    _write(folder, {placed("0001")})
    dumps.are_of_graph(dumps.placements(), 0)
    _write(folder, {ran("0002")})
    before = dumps.placements()
    _write(folder, {placed("0003")})
    dumps.are_of_graph(dumps.placements() - before, 1)
    dumps.has_several_graphs()
    dumps.finish()
    assert _names(folder) == {placed("0001"), placed("0003").replace("_graph", "_graph#1")}


SWITCHING = """
import os, sys
folder = sys.argv[1]
os.putenv("TF_DUMP_GRAPH_PREFIX", folder)
os.putenv("TF_DUMP_GRAPH_FMT", "BIN")
os.putenv("TF_DUMP_GRAPH_NAME_FILTER", "*")
import tensorflow as tf
from traceanalyzer.capturing.recorder.dump_switch import dump_switch
switch = dump_switch()
counts = []
for on in (True, False, True):
    if switch is not None:
        switch.value = int(on)
    tf.function(lambda x: x + 1.0)(tf.constant(1.0))
    counts.append(len(os.listdir(folder)))
print(switch is not None, counts[0] > 0, counts[1] == counts[0], counts[2] > counts[1])
"""


@pytest.mark.slow
def test_tensorflow_dumps_as_it_is_switched(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SWITCHING, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    # A TensorFlow whose flag is not found goes on as before.
    assert done.stdout.split() in (["True"] * 4, ["False", "True", "False", "True"])
