"""The first screen: what happened, what it costs, what to do; and the faults it must not have."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

import traceanalyzer as ta
from tests.causes.examples import Example, captured
from tests.report.made_changes import UNKNOWN, change
from tests.samples import SAMPLES, sample, sample_report
from tests.test_costs import gemms, run_of, run_of_two_gpus, training
from tests.traces import (
    call,
    eager,
    event,
    executor,
    gpu,
    host,
    iterator,
    kernel,
    line,
    old_copy,
    op,
    plane,
    send,
    step,
    stream,
    thread,
    us,
    write,
    xla_kernel,
    xspace,
)
from traceanalyzer.capture_file.document import CaptureFile, CaptureNote
from traceanalyzer.changes.find import in_order
from traceanalyzer.diagnosis import Diagnosis, cpu_ops, diagnose
from traceanalyzer.model import blocks as b
from traceanalyzer.model.changes import Saving
from traceanalyzer.report.html import render_page
from traceanalyzer.report.page import page_of
from traceanalyzer.report.page_facts import PageFacts
from traceanalyzer.report.text import plain

BUSY = gpu(0)(stream(9, "Compute")(kernel("k", us(0, 50), "model/MatMul:MatMul")))
PIPELINE = thread("tf_data_iterator", 1)(iterator("Root::Shuffle", us(0, 5)))
MATMUL = host(line("t")(op("a", "MatMul", us(0, 5))))
EIG_AND_JOIN = host(line("t")(op("a", "Eig", us(0, 5)), op("b", "StringJoin", us(9, 5))))
FUSION = gpu(0)(stream(1)(xla_kernel("fusion", us(0, 5), hlo_op="fusion.1")))
NO_OPS = host(line("t")(event("something", us(0, 5))))


@cache
def waiting() -> Diagnosis:
    """A run in which the GPU waits 40 of each 100 us for UniqueV2."""
    steps = (training(k, 100 * k, eager("UniqueV2", us(100 * k + 30, 40))) for k in range(4))
    device = stream(13, "Compute")(*(e for k in range(4) for e in gemms(k, 100 * k)))
    return diagnose(run_of(host(line("python")(*steps)), gpu(0, device)))


def every(page: b.Page, kind: type) -> Iterator[Any]:
    """Walk all blocks of a kind, however deep."""
    found = [block for section in page.sections for block in section.blocks]
    while found:
        block = found.pop(0)
        if isinstance(block, kind):
            yield block
        found += getattr(block, "blocks", ())
        found += [inner for tab in getattr(block, "tabs", ()) for inner in tab.blocks]


def fold(page: b.Page, fold_id: str) -> b.Fold:
    return next(found for found in every(page, b.Fold) if found.id == fold_id)


def said(page: b.Page) -> str:
    return f"{plain(page.happened)} {plain(page.next)}".replace("\xa0", " ")


def read(tmp_path: Path, *planes: Any) -> b.Page:  # noqa: ANN401 - words of the language
    return page_of(diagnose(ta.load(write(tmp_path, xspace(*planes)))))


# --- the answer ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("planes", "kind", "words"),
    [
        ((host(PIPELINE), BUSY), "B", ["The model runs entirely on the GPU."]),
        (
            (host(PIPELINE, line("python")(eager("Neg", us(9, 2)))), BUSY),
            "B",
            ["No op of the model is known to run on the CPU.", "For 1 op (2.00 µs of"],
        ),
        ((BUSY,), "B", ["No op of the model is known", "does not record CPU ops"]),
        ((EIG_AND_JOIN, BUSY), "B", ["the GPU never waited for them"]),
        ((MATMUL,), "C", ["No GPU was used.", "1 op ran on the CPU"]),
        ((MATMUL, gpu(0)()), "C", ["No GPU was used, although the machine has one."]),
        (
            (FUSION, host(PIPELINE)),
            "E",
            ["1 op, compiled by XLA, ran on the GPU", "no TensorFlow op ran on the CPU"],
        ),
        ((NO_OPS,), "E", ["The trace contains no ops"]),
        (
            (
                host(
                    thread("tf_C", 1)(executor(us(0, 90))(send("x", "y", us(1, 2), target="XPU:0")))
                ),
            ),
            "E",
            ["A pluggable device (such as Metal) was used", "set_log_device_placement(True)"],
        ),
        (
            (
                host(line("python")(eager("Add", us(0, 5)))),
                plane("/device:TPU:0", line("XLA Ops")(event("fusion", us(0, 9)))),
            ),
            "E",
            ["1 op, compiled by XLA, ran on the TPU", "For 1 op (5.00 µs of"],
        ),
    ],
)
def test_each_kind_of_page_has_its_answer(
    tmp_path: Path, planes: tuple[Any, ...], kind: str, words: list[str]
) -> None:
    page = read(tmp_path, *planes)

    assert page.kind == kind
    assert plain(page.next)
    for each in words:
        assert each in said(page)


def test_what_the_gpu_waits_for_is_named_with_its_cost_and_place() -> None:
    page = page_of(waiting())

    assert page.kind == "A"
    assert plain(page.happened).replace("\xa0", " ") == (
        "The GPU waits 40.0 µs per step (40.0 % of the mean step, 100 µs) for 1 op on the CPU, "
        "all for `UniqueV2`."
    )


def test_what_to_do_next_is_the_first_change_with_its_line_and_saving() -> None:
    page = page_of(waiting(), [change(waiting())])

    assert plain(page.next).replace("\xa0", " ") == (
        "Do this next: Create asked as int64 (program.py:49). It saves up to 40.0 µs per step."
    )


def test_if_the_cause_is_unknown_the_answer_says_how_to_check() -> None:
    unknown = change(waiting(), kind="find_cause", edits=(), candidates=(UNKNOWN,), place=None)
    page = page_of(waiting(), [unknown])

    assert 'your code asks for the CPU; check with `grep -n "tf.device" *.py`' in plain(page.next)
    (table,) = [t for t in every(page, b.Table) if t.columns[0].title == "Candidate cause"]
    assert table.rows[0][1] == "1 of 1 op"


def test_what_would_help_as_well_is_no_cause_to_check() -> None:
    other = replace(UNKNOWN, title="Let two calls run.", check="", edit="f(2)")
    page = page_of(waiting(), [change(waiting(), kind="input", candidates=(other,))])

    assert "Most likely" not in plain(page.next)
    assert not [t for t in every(page, b.Table) if t.columns[0].title == "Candidate cause"]
    assert "Or instead: let two calls run." in [plain(note.text) for note in every(page, b.Note)]


def test_python_that_takes_more_than_cpu_ops_is_named(tmp_path: Path) -> None:
    first, last = op("a", "MatMul", us(0, 10)), op("b", "MatMul", us(990, 10))
    steps = step(0, us(0, 1000))(first, last)

    page = read(tmp_path, host(line("python")(steps)))

    assert (
        "took 20.0 µs of the recorded 1.00 ms step (2.0 %). More goes to your program (98.0 %)"
        in (said(page))
    )


def test_without_a_gpu_the_prediction_leads_and_why_there_is_none_follows() -> None:
    page = page_of(sample("recommender"))

    assert page.kind == "D"
    assert plain(page.happened) == (
        "With a GPU, 46 of 52 ops would run on it; 6 would stay on the CPU. In this run, those 6 "
        "take 561\xa0µs of host time per step and a step takes 3.29\xa0ms (59.1\xa0% your program, "
        "27.8\xa0% CPU ops and 9.7\xa0% TensorFlow runtime)."
    )
    assert plain(page.next).startswith(
        "TensorFlow had no GPU: CUDA_VISIBLE_DEVICES hides the GPU and no driver was found."
    )
    block, step = every(page, b.StepBar)
    (bar,) = block.bars
    assert (block.unit, bar.total) == ("count", 52)
    assert step.unit == "us"
    assert {part.kind: part.value for part in bar.parts} == {"on_gpu": 46, "on_cpu": 6}


def moved_from_the_gpu(to: str) -> tuple[Diagnosis, str]:
    """The sample, with an op that is predicted on the GPU in another part of the analysis."""
    found = sample("recommender")
    there = found.on_a_gpu
    assert there is not None
    ids = cpu_ops(found.run)["op_id"]
    moved = next(op_id for op_id in ids if found.placement_on_a_gpu(op_id) == "gpu")
    analysis = replace(there.analysis, **{to: {moved: None}})
    return replace(found, on_a_gpu=replace(there, analysis=analysis)), moved


def test_an_op_that_a_gpu_computes_on_the_host_is_not_said_to_run_on_it() -> None:
    found, _ = moved_from_the_gpu("on_host")

    said_of_ops = plain(page_of(found).happened)
    assert "6 would stay on the CPU; of those on the GPU, 1 is computed on the host" in said_of_ops


def test_an_op_on_the_cpu_that_only_hands_on_a_value_is_not_predicted_on_the_gpu() -> None:
    found, op_id = moved_from_the_gpu("idle")

    assert found.placement_on_a_gpu(op_id) == "cpu"


def test_time_of_a_jax_program_without_a_reason_has_a_next_step(tmp_path: Path) -> None:
    kernels = (xla_kernel("fusion", us(100 * k, 50), hlo_op="fusion.1") for k in range(3))
    page = read(tmp_path, gpu(0)(stream(1)(*kernels)), host(PIPELINE))

    assert "idle for unknown reasons" in said(page)
    assert "waits for a result in each step" in said(page)


def test_little_idle_time_of_a_jax_program_needs_no_advice(tmp_path: Path) -> None:
    kernels = (xla_kernel("fusion", us(100 * k, 92), hlo_op="fusion.1") for k in range(3))
    page = read(tmp_path, gpu(0)(stream(1)(*kernels)), host(PIPELINE))

    assert "waits for a result in each step" not in said(page)


def test_a_gpu_that_waited_for_unknown_reasons_is_not_said_to_have_waited_little(
    tmp_path: Path,
) -> None:
    idle = gpu(0)(
        stream(9, "Compute")(
            kernel("k", us(0, 50), "model/MatMul:MatMul"),
            kernel("k", us(90, 10), "model/MatMul:MatMul"),
        )
    )
    page = read(tmp_path, EIG_AND_JOIN, idle)

    assert page.kind == "B"
    assert "in 40.0 µs of idle time is not known" in said(page)
    for wrong in ("not your bottleneck", "waits only", "never waited"):
        assert wrong not in said(page)


def test_one_step_is_too_short_for_advice_on_kernels(tmp_path: Path) -> None:
    busy = gpu(0)(stream(9, "Compute")(kernel("gemm", us(5, 90), "model/MatMul:MatMul")))
    page = read(tmp_path, host(line("python")(step(0, us(0, 100))(op("b", "Eig", us(1, 2))))), busy)

    assert "Record ten or more steps" in plain(page.next)
    assert "precision" not in said(page)


def test_without_steps_a_change_leads_only_if_its_ops_take_time(tmp_path: Path) -> None:
    long_one = gpu(0)(stream(9, "Compute")(kernel("k", us(0, 9000), "model/MatMul:MatMul")))
    for planes, leads in (((EIG_AND_JOIN, long_one), False), ((EIG_AND_JOIN, BUSY), True)):
        found = diagnose(ta.load(write(tmp_path / str(leads), xspace(*planes))))
        saving = Saving(kind="none")
        page = page_of(found, [change(found, kind="find_cause", edits=(), saving=saving)])
        assert ("Create asked as int64" in plain(page.next)) is leads


def test_in_a_step_a_change_of_unknown_saving_leads_only_if_its_ops_take_time(
    tmp_path: Path,
) -> None:
    for took_us, leads in ((1, False), (40, True)):
        ops = host(line("python")(step(0, us(0, 1000))(op("b", "Eig", us(1, took_us)))))
        busy = gpu(0)(stream(9, "Compute")(kernel("k", us(0, 900), "model/MatMul:MatMul")))
        found = diagnose(ta.load(write(tmp_path / str(leads), xspace(ops, busy))))
        saving = Saving(kind="none")
        page = page_of(found, [change(found, kind="find_cause", edits=(), saving=saving)])
        assert ("Create asked as int64" in plain(page.next)) is leads


def test_a_possible_cause_is_not_called_the_most_likely_one() -> None:
    given = {"kind": "find_cause", "edits": (), "candidates": (UNKNOWN,), "place": None}
    page = page_of(waiting(), [change(waiting(), certainty="possible", **given)])

    assert "Most likely" not in plain(page.next)
    assert "possible cause" in plain(page.next)


def test_a_prediction_that_is_only_likely_is_no_plain_statement() -> None:
    found = sample("recommender")
    there = found.on_a_gpu
    assert there is not None
    findings = tuple(replace(f, certainty="likely") for f in there.findings)
    fewer = replace(there.analysis, not_replayed={"an op"}, replayed=there.analysis.replayed - 1)
    doubtful = replace(there, findings=findings, analysis=fewer)

    page = page_of(replace(found, on_a_gpu=doubtful))

    assert "6 may stay on the CPU; the device of 1 is unknown" in plain(page.happened)


@pytest.mark.parametrize("kind", ["work_of_child_processes", "work_after_the_recording"])
def test_work_that_was_not_recorded_is_said_to_be_missing(kind: str) -> None:
    note = CaptureNote(
        id=kind, severity="warning", message="not recorded: processes that used 8 s; do it"
    )
    example = Example(title="", ops=({"name": "Mul", "type": "Mul"},))
    capture_file = CaptureFile(tool="", host="h", complete=True, notes=(note,))

    page = page_of(diagnose(captured(example.run(), capture_file, (None,))))

    assert plain(page.happened).endswith(". Not recorded: processes that used 8 s.")


def test_of_a_killed_program_what_is_missing_leads_and_nothing_is_called_well_placed() -> None:
    used = {"gpu_used": True, "gpu_witness": "ops on /device:GPU:0"}
    for ops, facts in (((), {}), (({"name": "Mul", "type": "Mul", "placement": "gpu:0"},), used)):
        capture_file = CaptureFile(tool="", host="h", complete=False)
        run = Example(title="", ops=ops, facts=facts).run()

        page = page_of(diagnose(captured(run, capture_file, (None,) * len(ops))))

        said_first = plain(page.happened)
        assert said_first.startswith("The program was killed")
        assert "not your bottleneck" not in said_first
        assert "entirely on the GPU" not in said_first
        assert "needs no change" not in plain(page.next)


# --- the step --------------------------------------------------------------------------------


def test_of_several_gpus_the_answer_is_the_mean_and_each_has_its_bar() -> None:
    page = page_of(diagnose(run_of_two_gpus()))

    assert "On average, a GPU waits 20.0 µs per step (20.0 % of the mean step, " in said(page)
    assert [bar.by_placement for bar in next(every(page, b.StepBar)).bars] == [40, None]


@pytest.mark.parametrize(("steps", "label"), [(6, "On the CPU in every step"), (2, "On the CPU")])
def test_only_what_recurs_is_said_to_be_in_each_step(
    steps: int, label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fewer than three steps do not show what recurs: a function at the end runs once."""
    monkeypatch.setattr(PageFacts, "steps", steps)

    (bar,) = next(every(page_of(sample("recommender")), b.StepBar)).bars

    assert label in {part.label for part in bar.parts}


# --- changes ---------------------------------------------------------------------------------


def test_a_card_has_the_edit_its_reason_its_evidence_and_its_ops() -> None:
    page = page_of(waiting(), [change(waiting()), change(waiting(), id="b2", needs=("a1",))])
    first, second = every(page, b.Card)

    assert (first.is_open, second.is_open) == (True, False)
    (diff,) = [block for block in first.blocks if isinstance(block, b.Diff)]
    assert diff.is_verified
    assert "tf.int32" in diff.old[0]
    assert "tf.int64" in diff.new[0]
    summaries = [plain(block.summary) for block in first.blocks if isinstance(block, b.Fold)]
    assert [text.partition(" (")[0] for text in summaries] == ["Evidence", "Ops", "Ruled out"]
    notes = [plain(block.text) for block in second.blocks if isinstance(block, b.Note)]
    assert "Some of these ops also need change 1." in notes


def test_an_edit_is_not_called_verified_while_another_line_must_change_too() -> None:
    found = sample("recommender")
    for also, is_verified in (((), True), ((("program.py", 83),), False)):
        page = page_of(found, [change(found, also=also)])
        [diff] = every(page, b.Diff)
        assert diff.is_verified is is_verified


def test_a_card_shows_the_way_of_the_data(tmp_path: Path) -> None:
    ops = op("a", "MatMul", us(10, 5)), op("b", "StringJoin", us(200, 50))
    copies = (
        old_copy("D2H", 4_000, us(150, 9), "a/_1:_HostRecv", producer="a", consumer="b"),
        old_copy("H2D", 800, us(260, 9), "b/_2:_HostSend", producer="b", consumer="c"),
    )
    on_gpu = gpu(0)(stream(9)(kernel("k", us(20, 90), "a:MatMul"), *copies))
    found = diagnose(ta.load(write(tmp_path, xspace(host(line("t")(*ops)), on_gpu))))

    joins = tuple(found.run.ops["op_id"][found.run.ops["type"] == "StringJoin"])

    (path,) = every(page_of(found, [change(found, op_ids=joins)]), b.DataPath)

    assert [(s.device, s.label, s.bytes_after) for s in path.steps] == [
        ("gpu", "a", 4_000),
        ("cpu", "StringJoin", 800),
        ("gpu", "c", None),
    ]


# --- faults of version 0.1 -------------------------------------------------------------------


def test_a_variable_inside_a_library_says_what_to_do_around_it() -> None:
    """Version 0.1 told users to cast a variable that is inside Keras."""
    inside = change(
        waiting(), kind="library", place=None, edits=(), around="Nothing to change in your code."
    )
    (card,) = every(page_of(waiting(), [inside]), b.Card)

    assert plain(card.where) == "inside a library"
    assert b.Note(text=("Nothing to change in your code.",)) in card.blocks


def test_an_op_that_a_change_moves_is_not_said_to_be_worth_no_change(tmp_path: Path) -> None:
    """Another finding can be about the same op: the run's own, beside the predicted one."""
    found = diagnose(ta.load(write(tmp_path, xspace(EIG_AND_JOIN, BUSY))))
    (eig,) = found.run.ops.loc[found.run.ops["type"] == "Eig", "op_id"]
    moves_it = change(found, op_ids=(eig,), finding_ids=())

    assert "Eig" in plain(fold(page_of(found, []), "other-findings").blocks[0].summary)
    assert not [f for f in every(page_of(found, [moves_it]), b.Fold) if f.id == "other-findings"]


def test_time_in_the_runtime_may_be_the_gpus_if_no_kernel_was_recorded(tmp_path: Path) -> None:
    calls = (call("__inference_step_1", us(100 * k, 90)) for k in range(4))
    copies = executor(us(0, 400))(send("x", "y", us(1, 2)))
    page = read(tmp_path, host(line("python")(*calls), thread("tf_C", 1)(copies)))

    (bar,) = next(every(page, b.StepBar)).bars
    runtime = next(part for part in bar.parts if part.kind == "runtime")

    assert "GPU work that was not recorded" in runtime.label


def test_what_runs_once_before_training_is_folded() -> None:
    """Version 0.1 called it harmful."""
    steps = [training(k, 100 * k + 200) for k in range(6)]
    device = stream(13, "Compute")(*(e for k in range(6) for e in gemms(k, 100 * k + 200)))
    run = run_of(host(line("python")(eager("Eig", us(10, 50)), *steps)), gpu(0, device))

    page = page_of(diagnose(run))

    assert page.kind == "B"
    assert plain(fold(page, "once").summary).startswith(
        "These run on the CPU, but not in each step: 1 op"
    )


def test_figures_are_of_the_step_and_not_of_the_recording() -> None:
    """Version 0.1 said "GPU idle 87 %" of a recording whose steps computed 72 %."""
    steps = [training(k, 100 * k) for k in range(4)]
    late = eager("MatMul", us(9000, 10))
    device = stream(13, "Compute")(*(e for k in range(4) for e in gemms(k, 100 * k)))
    page = page_of(diagnose(run_of(host(line("python")(*steps, late)), gpu(0, device))))

    assert "The mean step, 100 µs, is" in said(page)
    assert "22.0 % compute" in said(page)


def test_what_may_be_the_cause_is_not_said_to_be_excluded() -> None:
    """Version 0.1 said "nothing in this run shows it" of causes that were still possible."""

    def checked(diagnosis: Diagnosis) -> str:
        found = [each for each in every(page_of(diagnosis), b.Fold) if each.id == "checked"]
        return " ".join(plain(row[0]) for each in found for row in each.blocks[0].rows)

    unknown = run_of(MATMUL, BUSY)
    assert len(diagnose(unknown).unexplained) == 1
    assert "Colocated" not in checked(diagnose(unknown))
    assert "Colocated" in checked(waiting())


@pytest.mark.parametrize("name", SAMPLES)
def test_nothing_is_shown_that_is_unknown_everywhere(name: str) -> None:
    page = page_of(sample(name), [change(sample(name))])

    for table in every(page, b.Table):
        assert table.rows
        for column in range(len(table.columns)):
            assert any(row[column] is not None for row in table.rows), table.columns[column]
    assert all(section.blocks for section in page.sections)


@pytest.mark.parametrize("name", SAMPLES)
def test_links_lead_to_what_they_name(name: str) -> None:
    """In version 0.1, a link's text differed from the title it led to."""
    page = page_of(sample(name), [change(sample(name))])
    titles = {section.id: section.title for section in page.sections}
    titles |= {tab.id: tab.title for tabs in every(page, b.Tabs) for tab in tabs.tabs}
    titles["changes"] = "Changes"

    assert page.links
    for link in page.links:
        assert link.text.startswith(titles[link.to])


def test_the_data_and_the_page_have_changes_in_one_order() -> None:
    """They once differed: the change that makes a GPU visible was first, and last on the page."""
    made = sample_report("recommender")

    assert made.page is not None
    rows = [row.to for table in every(made.page, b.Changes) for row in table.rows]
    small = {c.id for c in made.changes if c.saving.share and c.saving.share < 0.01}
    shown = sorted(made.changes, key=lambda c: c.id in small)  # small ones are folded
    assert rows == [f"change-{c.id}" for c in shown]
    assert small
    assert [c.kind for c in made.changes].index("gpu") == len(made.changes) - 1


def test_why_there_is_no_gpu_is_the_first_change_if_no_op_is_to_move() -> None:
    found = sample("recommender")
    gpu = change(found, id="g", kind="gpu", title="Install the driver")
    runtime = change(found, id="r", kind="runtime", is_by_placement=False)

    assert [c.id for c in in_order(found, [gpu, runtime])] == ["g", "r"]
    assert [c.id for c in in_order(found, [gpu, runtime, change(found)])] == ["r", "a1", "g"]


def test_a_gpu_that_the_machine_has_is_made_visible_first() -> None:
    """Without a GPU in the machine, the variable that hides GPUs makes no difference."""
    found = sample("recommender")
    (machine,) = found.run.hosts
    assert machine.capture_file is not None
    capture_file = replace(machine.capture_file, gpus=({"name": "a GPU"},))
    run = replace(found.run, hosts=(replace(machine, capture_file=capture_file),))
    gpu = change(found, id="g", kind="gpu", title="Unset CUDA_VISIBLE_DEVICES")

    assert [c.id for c in in_order(replace(found, run=run), [gpu, change(found)])] == ["g", "a1"]


def test_bars_that_are_compared_share_a_scale() -> None:
    def bar(us: float) -> b.Bar:
        return b.Bar(label="GPU:0", total=us, parts=(b.Part(kind="compute", label="", value=us),))

    block = b.StepBar(unit="us", bars=(bar(100), bar(50)))
    page = page_of(sample("recommender"))
    section = b.Section(id="step", title="", blocks=(block,))
    html = render_page(msgspec.structs.replace(page, sections=(section,)))

    classes = re.findall(r'class="part compute (\w+)"', html)
    widths = [re.findall(rf"\.{name}{{width:(.*?)}}", html) for name in classes]
    assert widths == [["100%"], ["50%"]]


def test_if_there_is_nothing_to_explain_nothing_is_said_to_be_excluded(tmp_path: Path) -> None:
    page = read(tmp_path, FUSION)

    assert page.kind == "E"
    assert not {each.id for each in every(page, b.Fold)} & {"checked", "not-the-cause"}


def test_a_trace_without_ops_says_how_to_record_them(tmp_path: Path) -> None:
    assert "`traceanalyzer capture script.py`" in said(read(tmp_path, NO_OPS))
    assert "capture" not in plain(read(tmp_path / "jax", FUSION).next)
