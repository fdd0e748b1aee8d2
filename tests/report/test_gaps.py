"""The tab Timeline: gaps that are alike are one row."""

from tests.report.reading import records
from tests.report.test_first_screen import waiting
from tests.samples import sample
from tests.test_costs import run_of
from tests.traces import event, gpu, host, kernel, line, stream, us
from traceanalyzer.report.timeline import gap_table


def test_a_gap_that_recurs_each_step_is_one_row() -> None:
    (table,) = gap_table(waiting().run)

    first = records(table)[0]
    assert (first["waited_for"], first["op"], first["then"]) == ("CPU ops", "UniqueV2", "MatMul")
    assert (first["steps"], first["gaps"]) == (4, 4)
    assert first["each_us"] * 4 == first["total_us"]


def test_a_row_leads_to_its_longest_gap() -> None:
    (table,) = gap_table(waiting().run)

    begin, end = table.ids[0].removeprefix("time-").split("-")
    assert 20 <= float(begin) % 100 < float(end) % 100 <= 88


def test_gaps_add_up_to_the_time_that_the_device_was_idle() -> None:
    (table,) = gap_table(waiting().run)

    # Each gemm runs 12 and 10 us of a step; the last gap ends with the last of them.
    idle_us = 400 - 4 * 22
    assert sum(row["total_us"] for row in records(table)) in range(idle_us - 20, idle_us + 1)


def test_without_devices_the_programs_waits_are_the_gaps() -> None:
    (table,) = gap_table(sample("tf_function").run)

    assert "program's thread" in str(table.caption[0])
    assert records(table)[0]["steps"] > 1


def test_a_device_that_was_never_idle_has_no_table() -> None:
    device = stream(13, "Compute")(kernel("gemm", us(0, 100)))

    assert not list(gap_table(run_of(host(line("python")(event("x", us(0, 100)))), gpu(0, device))))
