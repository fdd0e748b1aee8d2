"""Host op self times against XProf's `framework_op_stats`.

XProf's row is an op by type and name. Ours are split further (by function, device, input types), so
they are summed to XProf's key. Both count ops that ran on host threads. These differ by design:

* Eager ops: since TensorFlow 2.12 they leave no `Name:Type` event, and XProf omits them. Of traces
  of 2.3 to 2.5 it takes the inner event, `X:X`, which lacks the runtime's part of the cost.
* Stages of tf.data: XProf gives all of them the type `Dataset`, and a row for each restart.
* `IDLE`, XProf's row for the time in which no op ran, and rows beyond the 500 most expensive.
"""

from pathlib import Path
from typing import Final, NamedTuple

import pandas as pd
import pytest

import traceanalyzer as ta
from tests.corpus import slow_but
from tests.tables.reading import rows
from tests.xprof import table, tool_data
from traceanalyzer.tables.vocabulary import without_counts

SAMPLES: Final = Path(__file__).resolve().parents[1] / "sample_traces"
XPROF_ROWS: Final = 500


class Figures(NamedTuple):
    """Of one row of XProf's, or the sum of ours that make it up."""

    occurrences: int
    total_us: float
    self_us: float


NOTHING: Final = Figures(0, 0, 0)

Key = tuple[str, str]
"""Type and name."""


def added(one: Figures, other: Figures) -> Figures:
    """Of both together."""
    return Figures(*(a + b for a, b in zip(one, other, strict=True)))


def xprof_rows(file: Path, folder: Path) -> dict[Key, Figures]:
    """What XProf says of a trace."""
    with_idle_time, _ = tool_data(file, "framework_op_stats", folder)
    found = {}
    for told in table(with_idle_time):
        kind, name = told["type"], told["operation"]
        if (kind, name) != ("IDLE", "IDLE"):
            key = (kind, without_counts(name) if kind == "Dataset" else name)
            one = Figures(told["occurrences"], told["total_time"], told["total_self_time"])
            found[key] = added(found.get(key, NOTHING), one)
    return found


def our_rows(ops: pd.DataFrame) -> dict[Key, Figures]:
    """The op table, summed to XProf's key."""
    found: dict[Key, Figures] = {}
    columns = ("type", "name", "occurrences", "host_total_ps", "host_self_ps")
    for kind, name, occurrences, total_ps, self_ps in rows(ops, *columns):
        one = Figures(occurrences, total_ps / 1e6, self_ps / 1e6)
        found[kind, name] = added(found.get((kind, name), NOTHING), one)
    return found


def with_stages_as_datasets(ours: dict[Key, Figures]) -> dict[Key, Figures]:
    """Our rows with XProf's one type for every stage of tf.data."""
    return {
        ("Dataset" if kind.startswith("Iterator::") else kind, name): figures
        for (kind, name), figures in ours.items()
    }


@pytest.mark.parametrize(
    "case",
    slow_but("keras_fit".__eq__, ["eager_ops", "keras_fit", "logical_devices", "tf_function"]),
)
def test_self_times_of_the_samples_agree(case: str, tmp_path: Path) -> None:
    (file,) = (SAMPLES / case).rglob("*.xplane.pb")
    ops = ta.load(file).ops
    theirs = xprof_rows(file, tmp_path)
    ours = with_stages_as_datasets(our_rows(ops[~ops["is_eager"]]))

    assert len(theirs) < XPROF_ROWS - 1  # none is cut
    assert set(theirs) == set(ours)  # they count what we count, eager ops apart
    for key, figures in theirs.items():
        assert ours[key].occurrences == figures.occurrences
        assert ours[key].self_us == pytest.approx(figures.self_us, rel=0.01)
        assert ours[key].total_us == pytest.approx(figures.total_us, rel=0.01)
    # By far closer in fact: both are sums of the same picoseconds.
    assert sum(f.self_us for f in ours.values()) == pytest.approx(
        sum(f.self_us for f in theirs.values()), rel=1e-6
    )
