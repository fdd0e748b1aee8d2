"""Transfers: the time that compute hides, and the rates of links."""

from typing import Any

import pytest

from tests.traces import copy, gpu, kernel, stream, us
from tests.transfers.made import CPU, made, recorded
from traceanalyzer.transfers.graph import device_graph
from traceanalyzer.transfers.traffic import LinkRate, hardware_links, pcie_bytes_per_s

US = 10**6
MIB = 2**20


def test_what_compute_hides_is_counted_once_and_of_the_transfers_own_device() -> None:
    """Kernels at 5-13 and 12-15 overlap: 10 to 15 of the copy's 10 to 20 is hidden."""
    found = made(
        gpu(0)(
            stream(7)(kernel("a", us(5, 8))),
            stream(8)(kernel("b", us(12, 3))),
            stream(9)(copy("H2D", 64, us(10, 10)), copy("H2D", 64, us(30, 5))),
        ),
        gpu(1)(stream(7)(kernel("c", us(0, 50)))),
    )

    assert list(found.traffic.table["hidden_ps"]) == [5 * US, 0]


class TestLink:
    @pytest.mark.parametrize(
        ("generation", "width", "expected"),
        [(1, 16, 4e9), (2, 8, 4e9), (3, 16, 15.754e9), (6, 16, 121e9), (9, 16, None), (3, 0, None)],
    )
    def test_pci_express_after_line_coding(
        self, generation: int, width: int, expected: float | None
    ) -> None:
        found = pcie_bytes_per_s(generation, width)
        assert found == (expected and pytest.approx(expected, rel=1e-3))

    def test_what_nvml_says_counts_where_it_is_the_same_for_all(self) -> None:
        slow = {"pcie_generation": 1, "pcie_width": 16}
        link = LinkRate(bytes_per_s=4e9, source="pcie")

        assert hardware_links({"/device:GPU:0": {}}, [slow, slow]) == {
            ("/device:GPU:0", "h2d"): link,
            ("/device:GPU:0", "d2h"): link,
        }
        assert hardware_links({"/device:GPU:0": {}}, [slow, slow | {"pcie_width": 8}]) == {}
        assert hardware_links({"/device:GPU:0": {}}, [slow | {"pcie_width": None}]) == {}
        assert hardware_links({"/device:GPU:0": {}}, [{"name": "H100"}]) == {}

    def test_a_link_slower_than_a_transfer_was_not_used(self) -> None:
        gpus: tuple[dict[str, Any], ...] = ({"pcie_generation": 1, "pcie_width": 16},)
        found = made(
            gpu(0, clock_rate=1)(stream(9)(copy("H2D", 9_000_000, us(0, 1000)))),
            capture_file=recorded("f", ("a", "NoOp", CPU, ()), gpus=gpus),
        )
        ((*_, edge),) = device_graph(found.traffic).edges(data=True)
        assert (edge["link_bytes_per_s"], edge["link_source"]) == (9e9, "seen")


def test_an_edge_sums_up_its_transfers() -> None:
    found = made(
        gpu(0, memory_bandwidth=2 * 10**12)(
            stream(7)(kernel("k", us(0, 2))),
            stream(8)(
                copy("H2D", 4 * MIB, us(1, 400), source="pageable", asynchronous=False),
                copy("H2D", 1 * MIB, us(500, 100)),
                kernel("MemcpyH2D", us(700, 1)),
            ),
        )
    )

    ((*_, edge),) = device_graph(found.traffic).edges(data=True)
    assert edge == {
        "bytes": 5 * MIB,
        "count": 3,
        "unknown_bytes": 1,
        "total_ps": 501 * US,
        "exposed_ps": None,
        "hidden_ps": 1 * US,
        "bytes_per_s": 5 * MIB / 500e-6,
        "link_bytes_per_s": 4 * MIB / 400e-6,
        "link_source": "seen",
        "pageable_count": 1,
        "pageable_bytes": 4 * MIB,
        "pinned_count": 1,
        "pinned_bytes": 1 * MIB,
        "async_count": 1,
        "sync_count": 1,
    }
