"""Names of devices: reading, merging, matching; the devices of a machine in TensorFlow's order."""

import pytest

from tests.placement.graphs import short
from traceanalyzer.placement.devices import (
    DeviceNameError,
    Machine,
    parse_device,
)

REFUSED = (
    "GPU:0 /gpu /Gpu:0 /device: /device:1GPU:0 /device:_GPU:0 /device:GPU: /device:GPU:x "
    "/device:GPU:0:1 /device:GPÜ:0 /device:GPU:٣ /JOB:w /job: /job:my-job /job:1st /replica:a // "
    "nonsense"
)


@pytest.mark.parametrize("spelt", [*REFUSED.split(), "/device:GPU:0 "])
def test_what_is_no_name_is_refused_with_the_text(spelt: str) -> None:
    with pytest.raises(DeviceNameError, match="Malformed device specification") as caught:
        parse_device(spelt)
    assert repr(spelt) in str(caught.value)


def test_devices_of_a_type_are_in_the_order_of_their_names_as_text() -> None:
    devices = Machine.local(gpus=12).devices
    assert [short(d) for d in devices[:4]] == ["GPU:0", "GPU:1", "GPU:10", "GPU:11"]
    assert short(devices[-1]) == "CPU:0"
    assert Machine.of(reversed(devices)) == Machine.local(gpus=12)
