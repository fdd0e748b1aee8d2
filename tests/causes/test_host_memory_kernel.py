"""int32 values that go from the GPU to the host and back in each call of a function."""

from typing import Final

import pytest

from tests.emulator.captures import captured
from traceanalyzer.changes.find import changes_of
from traceanalyzer.diagnosis import Diagnosis, diagnose
from traceanalyzer.findings import Finding
from traceanalyzer.report.page import page_of
from traceanalyzer.report.text import plain

_INT32: Final = """
import tensorflow as tf

stops = tf.constant([3, 1, 4, 1, 5, 9, 2, 6])  # passengers, by stop
order = tf.constant([7, 6, 5, 4, 3, 2, 1, 0])

@tf.function
def load(weights):
    along = tf.cumsum(stops)  # a GPU computes it
    turned = tf.concat([along[1:], along[:1]], 0)  # the host computes it
    return tf.gather(weights, order) + tf.cast(tf.cumsum(turned), tf.float32)

for _ in range(5):
    load(tf.random.normal([8]))
"""
_INT64: Final = _INT32.replace("])", "], tf.int64)").replace("[8], tf.int64)", "[8])")


def _diagnosed(source: str, gpus: int) -> tuple[Diagnosis, list[Finding]]:
    diagnosis = diagnose(captured(source, gpus=gpus).run())
    there = diagnosis.on_a_gpu
    found = diagnosis.findings if there is None else there.findings
    return diagnosis, [each for each in found if each.cause == "host_memory_kernel"]


@pytest.mark.parametrize("gpus", [0, 1])
def test_a_round_trip_within_a_function_is_found(gpus: int) -> None:
    diagnosis, findings = _diagnosed(_INT32, gpus)

    (trip,) = [each for each in findings if each.sub_reason == "round_trip"]
    assert (trip.certainty, trip.harm) == ("certain", "harmful")
    assert "ConcatV2" in trip.title
    texts = " ".join(each.text for each in trip.evidence)
    assert texts.count("32 bytes") == 2  # `stops` and `order`, which are uploaded

    changes = changes_of(diagnosis)
    (change,) = [each for each in changes if each.finding_ids == (trip.id,)]
    assert "int64" in change.title
    page = page_of(diagnosis, changes)
    said = plain((*page.happened, " ", *page.next))
    assert "ConcatV2" in said
    assert "runs entirely on the GPU" not in said
    assert "needs no change" not in said


@pytest.mark.parametrize("gpus", [0, 1])
def test_int64_values_stay_on_the_gpu(gpus: int) -> None:
    _, findings = _diagnosed(_INT64, gpus)
    assert not [each for each in findings if each.sub_reason is not None]
