"""Ops made for the tests of the page's grid: of every kind, some unknown, some hostile."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from tests.report.bad_input import HOSTILE
from tests.report.examples import gpu_run
from traceanalyzer.report.ops import pack_ops

if TYPE_CHECKING:
    from traceanalyzer.model import Report

_TYPES = ("MatMul", "Cast", "AddV2", "Conv2DBackpropFilter", "StridedSlice")
_CAUSES = (
    ("", "", ""),
    ("unexplained", "", ""),
    ("dtype_unsupported", "certain", "f3a91c07"),
    ("no_gpu_kernel", "likely", "0be77d52"),
    ("python_callback | dragged_along_by_no_gpu_kernel", "certain | likely", "f3a91c07 | 0be77d52"),
)
_ODD_NAMES = (HOSTILE, '=HYPERLINK("http://a")', "+1", "-2", "@x", 'a "quoted", name', "two\nlines")


def made_rows(count: int, seed: int = 7) -> list[dict[str, Any]]:
    """Makes rows of ops; the first bear odd names."""
    chance = random.Random(seed)  # noqa: S311 - made the same each time
    rows = []
    for k in range(count):
        kind = chance.choice(_TYPES)
        cause, certainty, findings = chance.choice(_CAUSES)
        on_cpu = bool(cause)
        rows.append(
            {
                "op_id": f"{(k * 2654435761) % 2**40:010x}",
                "name": _ODD_NAMES[k]
                if k < len(_ODD_NAMES)
                else f"model/block_{k % 12}/Layer_{k % 7}/{kind}_{k}",
                "type": kind,
                "placement": "cpu" if on_cpu else chance.choice(("gpu:0", "gpu:1", "xla")),
                "cause": cause,
                "certainty": certainty,
                "findings": findings,
                "device": chance.choice((None, "/job:localhost/device:CPU:0")),
                "host": "trainer-0",
                "function": chance.choice((None, "train_step", "evaluate")),
                "role": chance.choice(("compute", "runtime")),
                "in_input_pipeline": chance.choice(("yes", "no")),
                "is_eager": chance.choice(("yes", "no")),
                "input_types": chance.choice((None, "float;float", "int32;float", "string")),
                "requested_device": chance.choice((None, "", "/device:GPU:0")),
                "source": chance.choice((None, f"train/model.py:{k % 90 + 1}", "my file.py:7")),
                "occurrences": chance.randint(1, 30),
                "kernels": chance.choice((0, chance.randint(1, 50))),
                "h2d_bytes": chance.choice((None, 0, chance.randint(1, 10**8))),
                "d2h_bytes": chance.choice((0, chance.randint(1, 10**4))),
                "host_self_us": round(chance.expovariate(1 / 900), 3),
                "host_nested_us": chance.choice((0.0, round(chance.expovariate(1 / 90), 3))),
                "exposed_us": chance.choice((None, 0.0, round(chance.expovariate(1 / 50), 3))),
                "kernel_us": round(chance.expovariate(1 / 300), 3),
                "copy_us": 0.0,
            }
        )
    return rows


def report_of(rows: list[dict[str, Any]], total_rows: int | None = None) -> Report:
    """Makes a report that holds these ops."""
    columns = list(made_rows(1)[0])
    packed = pack_ops(pd.DataFrame(rows, columns=columns, dtype=object), total_rows or len(rows))
    run = gpu_run()
    return replace(run, tables=replace(run.tables, all_ops=packed))
