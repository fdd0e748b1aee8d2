"""The columns of each table, with their dtypes and meanings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Schema:
    """A table's columns, in order."""

    name: str
    columns: Mapping[str, str]  #: pandas dtypes; `text`: a categorical of strings, null if unknown

    def frame(self, parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
        """Build the table from the columns of each host."""
        parts = parts or [pd.DataFrame(columns=list(self.columns), dtype=object)]
        columns = {name: [part[name] for part in parts] for name in self.columns}
        table = pd.DataFrame({name: _join(columns[name], t) for name, t in self.columns.items()})
        return table.reset_index(drop=True)


def _join(columns: list[pd.Series], dtype: str) -> pd.Series | pd.Categorical:
    if dtype != "text":
        joined = columns[0] if len(columns) == 1 else pd.concat(columns, ignore_index=True)
        return joined.astype(pd.api.types.pandas_dtype(dtype))
    parts = [_coded(column) for column in columns]
    return parts[0] if len(parts) == 1 else pd.api.types.union_categoricals(parts)


def _coded(column: pd.Series) -> pd.Categorical:
    is_coded = isinstance(column.dtype, pd.CategoricalDtype)
    found = column.array if is_coded else pd.Categorical(column.astype(object))
    if found.categories.dtype == object:
        return found
    # A fixed dtype for the categories, whatever pandas infers, so that hosts can be joined.
    return found.rename_categories(pd.Index(found.categories, dtype=object))


OPS = Schema(
    "ops",
    {
        "op_id": "object",  # key of the row, the same in every recording of a program
        "host": "text",  # host, as its file is named
        "function": "text",  # without TensorFlow's counter; see also `TF_DATA` in `functions`
        "name": "text",  # op name; for an eager op, which has no name, its type
        "type": "text",  # op type
        "device": "text",  # device, full string; null where unknown
        "signature": "text",  # distinguishes rows of one name: input types, scope, file:line
        "role": "text",  # compute, no_work, input_pipeline, transfer or runtime
        "placement": "text",  # cpu, gpu:N, host_memory, xla, tpu:N, pluggable, unknown
        "placement_certainty": "text",  # certain, likely or possible
        "placement_source": "text",  # the evidence for the placement
        "is_eager": "bool",  # ran eagerly
        "in_input_pipeline": "bool",  # ran on behalf of tf.data
        # Why it has no event, and so no duration; null if it has one. It ran: `short`, `never`
        # (recorded at this tracer level), `asynchronous`, `lost`; whether it ran is `unknown`; its
        # function was not called: `not_recorded`; nothing is recorded: `tracer_level`, `no_trace`.
        "no_event": "text",
        "occurrences": "int64",  # how often it was seen; a lower bound at tracer level 2
        "host_self_ps": "int64",  # time on host threads, without the ops nested in it
        "host_total_ps": "int64",  # time on host threads, with the ops nested in it
        "kernel_ps": "int64",  # sum of its kernels' durations
        "kernels": "int64",  # number of kernels
        "h2d_bytes": "int64",  # bytes copied to the device for it, as producer or consumer
        "d2h_bytes": "int64",  # bytes copied to the host for it, as producer or consumer
        "copy_ps": "int64",  # time of these copies
        "exposed_ps": "Int64",  # time a device was idle because of it; null if unknown
        "input_types": "text",  # types of its inputs, ? for an unknown one; null where unknown
        "output_types": "text",  # types of its outputs; null without a capture file
        "requested_device": "text",  # requested device, empty for none; null without a capture file
        "source_file": "text",  # the user's file; null without a capture file
        "source_line": "Int64",  # line in it; null without a capture file
    },
)

KERNELS = Schema(
    "kernels",
    {
        "host": "text",  # host
        "device": "text",  # device plane, /device:GPU:0
        "stream": "text",  # stream (XLine) it ran on
        "name": "text",  # kernel name
        "op_id": "text",  # row of `ops`; null where it could not be linked
        "op": "text",  # op name and type
        "start_ps": "int64",  # start
        "duration_ps": "int64",  # duration
        "correlation_id": "int64",  # links it to its launch; 0 for none
    },
)

TRANSFERS = Schema(
    "transfers",
    {
        "host": "text",  # host
        "device": "text",  # device whose stream copied; null if only the host recorded it
        "stream": "text",  # stream (XLine) it ran on
        "direction": "text",  # h2d, d2h, d2d, p2p or h2h
        "bytes": "Int64",  # bytes; null where unknown
        "start_ps": "int64",  # start
        "duration_ps": "Int64",  # duration; null if only the send was recorded
        "memory": "text",  # host memory: pageable, pinned or unknown
        "is_async": "boolean",  # whether it was queued; null where unknown
        "producer": "text",  # op_id of the op that made the value; null where unknown
        "consumer": "text",  # op_id of the op that uses it; null where unknown
        "producer_name": "text",  # producer's name, also where it has no row in `ops`
        "consumer_name": "text",  # consumer's name, also where it has no row in `ops`
        "correlation_id": "int64",  # links it to its launch; 0 for none
        # _Send, _Recv, _HostSend, _HostRecv; op: another op; argument: of a call; python: a tensor
        "via": "text",
        "function": "text",  # function that started it
        "thread": "text",  # thread that started it; null where unknown
        "launch_ps": "Int64",  # when that thread started it; null where unknown
        "exposed_ps": "Int64",  # time a device was idle because of it; null if unknown
    },
)

ALLOCATIONS = Schema(
    "allocations",
    {
        "host": "text",  # host
        "start_ps": "int64",  # when
        "is_allocation": "bool",  # false: memory was freed
        "allocator": "text",  # GPU_0_bfc ...; `device 0` if only the device's number is recorded
        "requested_bytes": "Int64",  # bytes requested
        "allocation_bytes": "Int64",  # bytes allocated
        "bytes_allocated": "Int64",  # in use by the allocator then, including this one
        "bytes_reserved": "Int64",  # reserved by it then, as TPUs do for stacks
        "bytes_available": "Int64",  # still available to it then
        "peak_bytes_in_use": "Int64",  # its peak so far
        "fragmentation": "Float64",  # share of its free memory outside the largest free piece
        "addr": "Int64",  # address: pairs allocation and deallocation
        "op_id": "text",  # row of `ops`; null where it could not be linked
        "op_name": "text",  # op that it was made for
        "region_type": "text",  # output, temp, persist or dynamic
        "data_type": "text",  # type, `float`
        "shape": "text",  # shape
    },
)

STEPS = Schema(
    "steps",
    {
        "host": "text",  # host
        "step": "int64",  # number
        "name": "text",  # kind of step: what the marker is called, or train, test
        "start_ps": "int64",  # start
        "duration_ps": "int64",  # duration
        "source": "text",  # the evidence for it: step_num, Keras function, function calls ...
        "is_inferred": "bool",  # inferred from what repeats, not marked
        "kind": "text",  # regular, warm_up, outlier (far from the median), partial (cut off)
    },
)

# Recorded by tf.data (tensorflow/core/framework/dataset.h, tensorflow/core/kernels/data).
STAGES = Schema(
    "stages",
    {
        "host": "text",  # host
        "pipeline": "int64",  # which of the host's pipelines, in the order they began
        "stage": "text",  # path from the pipeline's end, Root::Prefetch::Map
        "parent": "text",  # path of the stage that consumes its elements; null at the end
        "type": "text",  # kind of stage: Map, ParallelMapV2, Prefetch ...
        "name": "text",  # its name in TensorFlow or the program; null where unknown
        "is_async": "bool",  # makes elements ahead, on background threads
        "iterators": "int64",  # iterators seen: one an epoch, or a file of an interleave
        "elements": "int64",  # requests for an element, the one at the end included
        "total_ps": "int64",  # time in these requests, summed over threads
        "self_ps": "int64",  # part of total_ps outside requests to inputs; if is_async, waiting
        "input_ps": "int64",  # time in requests to its inputs, on any thread
        "first_ps": "int64",  # time in the first request seen of each iterator: its start
        "calls": "int64",  # calls of its function
        "call_ps": "Int64",  # time from their start to their end; null without a call
        "op_ps": "Int64",  # part of call_ps in ops; null without a call
        "python_ps": "Int64",  # part of call_ps in Python callbacks; null without a call
        "ops": "text",  # types of the ops in its function, by time; null if there are none
        "threads": "int64",  # threads that requested elements from it
        "parallelism": "Int64",  # most calls at once; null where unknown
        "autotune": "boolean",  # whether tf.data chooses that; null where unknown
        "buffer_size": "Int64",  # most elements that it buffers
        "batch_size": "Int64",  # elements in a batch
        "cycle_length": "Int64",  # inputs that an interleave reads at once
        "cpu_budget": "Int64",  # CPUs that tf.data may use; null except for the last stage
        "element_bytes": "Int64",  # size of an element; null where its shape is not fixed
        "source_file": "text",  # file that made the dataset; null without a capture file
        "source_line": "Int64",  # line in it; null without a capture file
        "function_file": "text",  # file of its function; null without a capture file
        "function_line": "Int64",  # line of its most expensive op; null without a capture file
    },
)

SCHEMAS = (OPS, KERNELS, TRANSFERS, ALLOCATIONS, STEPS, STAGES)
