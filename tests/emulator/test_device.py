"""The emulated GPU: what TensorFlow sees of it, what it computes, and where it ends."""

from typing import Any

import numpy as np
import pytest

from tests.emulator.oracle import Outcome, the_oracle

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
MIB = 1 << 20


def run(program: str, **options: Any) -> Outcome:  # noqa: ANN401 - those of `Oracle.run`
    outcome = the_oracle().run(f"tests.emulator.programs:{program}", **options)
    assert outcome.exit_code == 0, outcome.stderr[-3000:]
    return outcome


def value_of(program: str, **options: Any) -> Any:  # noqa: ANN401 - what programs return
    return run(program, **options).value


# -------------------------------------------------------------------------------- devices


@pytest.mark.parametrize(("visible", "left"), [("", 0), ("1,-1,0", 1), ("1,0", 2)])
def test_cuda_visible_devices_hides_them_as_the_driver_does(visible: str, left: int) -> None:
    seen = value_of("devices", gpus=2, environment={"CUDA_VISIBLE_DEVICES": visible})

    assert len(seen["physical"]) == len(seen["logical"]) == left


# --------------------------------------------------------------------------------- memory


def test_what_does_not_fit_is_tensorflows_own_error() -> None:
    seen = value_of("out_of_memory", memory=8 * MIB)

    for kind, message in (seen["error"], seen["in_graph"]):
        assert kind == "ResourceExhaustedError"
        assert "OOM when allocating tensor with shape[4194304] and type float" in message
        assert f"on {GPU} by allocator GPU_0_bfc" in message
    assert seen["held"][0] == "ResourceExhaustedError"
    assert seen["refilled"] == [6 * MIB / 4] * 10
    assert seen["on_cpu"] == 9 * MIB / 4
    assert seen["before"]["current"] >= MIB
    assert seen["after"]["current"] < MIB
    assert 7 * MIB <= seen["after"]["peak"] <= 8 * MIB


# -------------------------------------------------------------------------------- results


def test_it_computes_what_the_cpu_computes() -> None:
    expected = value_of("computed", gpus=0)

    outcome = run("computed")

    assert outcome.value.keys() == expected.keys()
    for name, result in outcome.value.items():
        if result.dtype.kind in "fc":
            np.testing.assert_allclose(result, expected[name], rtol=1e-4, atol=1e-4, err_msg=name)
        else:
            assert result.tolist() == expected[name].tolist(), name
    on_gpu = {kernel.op for kernel in outcome.kernels if kernel.device == GPU}
    assert {"Conv2D", "Svd", "Unique", "Where", "DynamicPartition"} <= on_gpu
