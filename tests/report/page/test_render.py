from __future__ import annotations

import base64
import hashlib
import itertools
import re
from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING

import jinja2
import pytest

from tests.report.examples import (
    EXAMPLES,
    GATHER,
    HOSTILE,
    MATMUL,
    PY_FUNC,
    cpu_only_run,
    empty_run,
    gpu_run,
    hostile_run,
)
from tests.report.markup import Element, read
from traceanalyzer.model import Blocker, Evidence, Fix, Health, Steps, Table
from traceanalyzer.report.page import assets
from traceanalyzer.report.page.render import (
    breakable,
    environment,
    render_page,
    spans,
    write_page,
)
from traceanalyzer.report.text import visible

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.model import Report

INSIDE = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
SECTIONS = [
    "verdict",
    "findings",
    "unexplained",
    "copies",
    "ops",
    "steps",
    "health",
    "devices",
    "rules",
    "method",
]


@pytest.fixture(params=sorted(EXAMPLES))
def page(request: pytest.FixtureRequest) -> str:
    return render_page(EXAMPLES[request.param]())


@pytest.fixture(scope="module")
def gpu_page() -> Element:
    return read(render_page(gpu_run()))


def cells(row: Element) -> list[str]:
    return [c.text for c in row.children if isinstance(c, Element) and c.tag in ("th", "td")]


def rows(section: Element, caption: str) -> list[list[str]]:
    tables = [t for t in section.all("table") if t.one("caption").text == caption]
    assert len(tables) == 1
    return [cells(row) for row in tables[0].one("tbody").all("tr")]


# --- every page ----------------------------------------------------------------------------


def test_page_is_well_formed_and_its_ids_are_unique(page: str) -> None:
    ids = [element.attributes["id"] for element in read(page).all() if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    assert not [name for name in ids if name is None or re.search(r"\s", name)]


def test_links_lead_to_places_on_the_page(page: str) -> None:
    document = read(page)
    ids = {element.attributes.get("id") for element in document.all()}
    links = [a.attributes["href"] for a in document.all("a")]
    assert links
    for link in links:
        assert link is not None
        assert link.startswith("#")
        assert link[1:].partition("&")[0] in ids


def test_every_section_stands_in_its_order(page: str) -> None:
    main = read(page).one("main")
    ids = [s.attributes.get("id") for s in main.children if isinstance(s, Element)]
    optional = {"on-a-gpu", "input-pipeline", "islands", "beliefs", "memory", "time", "timeline"}
    assert [name for name in ids if name not in optional] == SECTIONS


def test_headings_are_ordered(page: str) -> None:
    levels = [int(e.tag[1]) for e in read(page).all() if re.fullmatch("h[1-6]", e.tag)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    steps = itertools.pairwise(levels)
    assert all(deeper - level <= 1 for level, deeper in steps)


def test_tables_name_themselves_and_their_headings(page: str) -> None:
    for table in read(page).all("table"):
        assert table.one("caption").text
        for heading in table.all("th"):
            assert heading.attributes.get("scope") in ("col", "row")
        width = len(list(table.one("thead").all("th")))
        assert {len(cells(row)) for row in table.one("tbody").all("tr")} <= {width}


def test_page_loads_nothing(page: str) -> None:
    document = read(page)
    tags = {element.tag for element in document.all()}
    assert not tags & {"iframe", "object", "embed", "img", "link", "base", "form", "use"}
    for element in document.all():
        for name in element.attributes:
            assert not name.startswith("on")
            assert name not in ("style", "src", "srcset", "action", "xlink:href")
    style = document.one("style").raw
    assert "@import" not in style
    assert not re.search(r"url\((?!#)", style)


def test_no_address_outside_the_file(page: str) -> None:
    # The name of SVG is no address, and in base64, as packed tables are, anything may stand.
    told = re.sub(r"(<script type=\"application/octet-stream\"[^>]*>)[^<]*", r"\1", page)
    told = told.replace("http://www.w3.org/2000/svg", "").replace("//#", "")
    assert not re.search(r"(https?:)?//[a-z]", told, re.IGNORECASE)


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_policy_allows_the_own_style_and_scripts_and_nothing_else(page: str) -> None:
    document = read(page)
    policy = document.one("meta", http_equiv="Content-Security-Policy").attributes["content"]
    programs = [s.raw for s in document.all("script") if "type" not in s.attributes]
    assert len(programs) == 2
    assert policy == (
        f"default-src 'none'; style-src {digest(document.one('style').raw)}; "
        f"script-src {' '.join(map(digest, programs))}; base-uri 'none'; form-action 'none'"
    )
    head = document.one("head")
    order = [child.tag for child in head.children if isinstance(child, Element)]
    assert order.index("meta") < order.index("style")
    assert order.index("meta") < order.index("script")


def test_scripts_are_the_packages_own_whatever_the_report_says() -> None:
    programs = {
        tuple(s.raw for s in read(render_page(build())).all("script") if "type" not in s.attributes)
        for build in EXAMPLES.values()
    }
    assert programs == {(assets.early_script(), assets.script())}


def test_page_can_be_written(page: str, tmp_path: Path) -> None:
    assert page.encode("utf-8")
    path = tmp_path / "report.html"
    write_page(gpu_run(), path)
    assert path.read_bytes().startswith(b"<!DOCTYPE html>")


def test_only_characters_that_show_are_in_the_page(page: str) -> None:
    assert visible(page.replace("\n", "")) == page.replace("\n", "")


# --- what it says --------------------------------------------------------------------------


def test_verdict_and_key_figures(gpu_page: Element) -> None:
    verdict = gpu_page.one("section", id="verdict")
    assert verdict.one("p", class_="verdict").text == gpu_run().summary.verdict
    figures = [figure.text for figure in verdict.one("dl", class_="key-figures").all("div")]
    assert len(figures) == 3
    assert figures[0] == "Step time 14.4 ms median; 95th percentile 14.9 ms"
    assert figures[1].startswith("Lost to CPU placement per step 1.95 ms the GPU waited because")
    assert figures[2] == "Explained 97.8 % of CPU-op time, certain or likely"
    more = [figure.text for figure in verdict.one("dl", class_="more-figures").all("div")]
    assert more == [
        "CPU-op time 229 ms in 5 CPU-placed ops",
        "GPU idle 35.7 % of a step, for any reason",
        "Devices 2 \N{MULTIPLICATION SIGN} GPU NVIDIA A100-SXM4-40GB, CPU AMD EPYC 7763 devices",
        "Software TensorFlow 2.18.0 from the sidecar",
        "Trace health warning 1 of 2 remarks what limits this trace",
    ]
    assert [a.attributes["href"] for a in verdict.all("a")] == ["#devices", "#health"]
    legend = verdict.one("figcaption").text
    assert "certain 80.2 % likely 17.6 % possible 0 % unexplained 2.2 %" in legend


def test_exact_figures_are_in_reach(gpu_page: Element) -> None:
    shown = {d.attributes["value"]: d for d in gpu_page.all("data") if "title" in d.attributes}
    assert shown["182412.339"].text == "182 ms"
    assert shown["182412.339"].attributes["title"] == "182,412.339 µs"
    assert shown["1258291200"].attributes["title"] == "1,258,291,200 bytes"


def test_health(gpu_page: Element) -> None:
    entries = [entry.text for entry in gpu_page.one("ul", class_="health").all("li")]
    assert entries[0].startswith("warning The GPU tracer dropped 1,204 events")
    assert entries[1].startswith("info 0.8 % of kernel time")


def test_devices(gpu_page: Element) -> None:
    found = rows(gpu_page.one("section", id="devices"), "Devices of the run")
    assert found[0][3:] == ["unknown", "unknown", "unknown"]
    assert found[1] == [
        "/device:GPU:0",
        "gpu",
        "NVIDIA A100-SXM4-40GB",
        "36,480",
        "1.09 s",
        "64.3 %",
    ]


def test_findings_at_a_glance(gpu_page: Element) -> None:
    found = rows(gpu_page.one("section", id="findings"), "Findings at a glance")
    assert found[0] == [
        "1",
        "A Python function runs inside every step",
        "certain",
        "harmful",
        "1",
        "1.70 ms",
        "1.70 ms",
        "182 ms",
        "1.26 GB",
    ]
    assert found[1][-1] == "unknown"
    assert found[2][5] == "unknown"
    assert found[3][2:6] == ["certain", "by design", "212", "by design"]


def test_a_finding_in_full(gpu_page: Element) -> None:
    card = gpu_page.one("article", id="finding-f3a91c07")
    said = card.text
    for words in (
        f"python_callback {INSIDE} eager_py_func",
        "soft placement fallback",
        "#f3a91c07",
        "1.10 ms to 1.70 ms",
        "GPU idle time that overlaps this op and its copies",
        "tf.py_function calls back into the Python interpreter.",
        "Checked: ",
        f"/host:CPU {INSIDE} tf_Compute/2087, at 412 ms, for 2.11 ms",
        "train/augment.py:88",
        "sidecar: functions/__inference_train_step_4711/augment",
        "explicit CPU placement, enough by itself",
        "no GPU visible: one GPU ran 36,480 kernels in the same trace",
        "This op is on the CPU only because of the above.",
    ):
        assert words in said
    code = card.one("section", class_="fixes").one("pre").raw
    assert code.count("\n") == 2
    assert '[1, 1, 1, 1], "SAME")' in code


def test_long_lists_of_ops_are_cut_with_a_count(gpu_page: Element) -> None:
    card = gpu_page.one("article", id="finding-9c1d2ab8")
    assert "Showing 54 of 212 ops. All of them: traceanalyzer tables PATH -o DIR" in card.text
    assert len(list(card.one("table").one("tbody").all("tr"))) == 54


def test_unexplained_ops_have_their_cost(gpu_page: Element) -> None:
    section = gpu_page.one("section", id="unexplained")
    assert "no rule found a cause: 5.12 ms of CPU-op time" in section.text
    found = rows(section, "CPU-placed ops without a known cause")
    assert found[0][1:] == ["120", "28.4 µs", "5.12 ms", "640 µs", "31.5 MB"]
    # What holds for every op is said once, above them.
    assert "Not excluded: resource on CPU, explicit CPU placement." in section.text
    assert [code.text for code in section.all("code")] == ["traceanalyzer capture"]


def test_what_tells_unexplained_ops_apart_stands_beside_each() -> None:
    run = gpu_run()
    op = run.unexplained.ops[0]
    other = replace(op, op_id="x", candidates=(), settled_by=None)
    free = replace(other.cost, exposed_us_per_step=None)
    both = (op, replace(other, cost=free))
    page = read(render_page(replace(run, unexplained=replace(run.unexplained, ops=both))))
    found = rows(page.one("section", id="unexplained"), "CPU-placed ops without a known cause")
    assert found[0][-2] == "resource on CPU, explicit CPU placement"
    assert found[1][-2:] == ["unknown", "unknown"]
    assert found[1][2] == "unknown"
    neither = tuple(replace(one, cost=free) for one in both)
    page = read(render_page(replace(run, unexplained=replace(run.unexplained, ops=neither))))
    section = page.one("section", id="unexplained")
    assert "How long the GPU waited is unknown for every op." in section.text
    assert "GPU waits per step" not in section.text


def test_cpu_placed_ops_lead_to_their_cause(gpu_page: Element) -> None:
    section = gpu_page.one("section", id="ops")
    row = section.one("tr", id=f"op-{PY_FUNC.op_id}")
    assert cells(row)[1:6] == ["certain python callback", "cpu", "120", "182 ms", "204 ms"]
    assert row.one("a").attributes["href"] == "#finding-f3a91c07"
    assert "train/augment.py:88" in cells(row)[0]
    unexplained = section.one("tr", id=f"op-{GATHER.op_id}")
    assert cells(unexplained)[1] == "unexplained"
    unknown = section.one("tr", id=f"op-{MATMUL.op_id}")
    assert cells(unknown)[7:9] == ["unknown", "unknown"]
    assert "dragged along by python callback" in section.text


def test_copies(gpu_page: Element) -> None:
    section = gpu_page.one("section", id="copies")
    found = rows(section, "Copies between devices")
    assert found[0] == ["host", "gpu:0", "host to device", "3.04 GB", "480", "257 ms"]
    assert found[2][3] == "unknown"
    shown = [s for s in section.all("svg") if "data-measure" in s.attributes]
    assert [s.attributes["data-measure"] for s in shown if "hidden" not in s.attributes] == [
        "bytes",
        "bytes",
    ]
    picture = shown[0]
    assert len(list(picture.all("line"))) == 4
    assert len(list(picture.all("line", class_="shaft unmeasured"))) == 1
    assert "size unknown" in picture.text
    groups = rows(section, "Copies by groups of ops")
    assert groups[0][:7] == [
        *("host, op unknown", "memory", "copied from", "unknown", "2.41 GB", "240", "201 ms"),
    ]
    assert groups[3][3:5] == ["12", "unknown"]
    assert groups[-1][4] == "at least 94.4 MB"
    assert groups[2][-1] == "R1, R2"
    by_op = rows(section, "Copies by the ops at both ends")
    assert by_op[0] == [
        "augment/EagerPyFunc",
        "gpu:0",
        "host to device",
        "629 MB",
        "120",
        "52.0 ms",
        "11.0 ms",
    ]
    assert "Showing 5 of 61 edges." in section.text


def test_other_ops_and_kernels(gpu_page: Element) -> None:
    section = gpu_page.one("section", id="ops")
    found = rows(section, "Ops, the CPU-placed ones first")
    assert [row[2] for row in found] == ["cpu"] * 5 + ["gpu:0"] * 9
    assert found[5][0].startswith("model/backbone/block_3/conv2d/Conv2D")
    assert found[5][1] == "none needed"
    assert found[5][6] == "1.20 s"
    assert "Showing 14 of 4,697 ops." in section.text
    full = str(gpu_run().tables.kernels.rows[0][0])
    kernel = next(iter(section.all("bdi", title=full)))
    assert "…" in kernel.text
    assert kernel.text.endswith("align4::Params)")


def test_steps_and_rules_and_method(gpu_page: Element) -> None:
    steps = gpu_page.one("section", id="steps")
    assert "the first two were left out as warm-up." in steps.text
    assert "Showing 40 of 120 steps." in steps.text
    times, phases = (svg for svg in steps.all("svg") if svg.attributes.get("role") == "img")
    assert len(list(times.all("rect"))) == 40
    assert "Phases of " in phases.attributes["aria-label"]
    rules = gpu_page.one("section", id="rules")
    assert "1 failed" in rules.text
    method = gpu_page.one("section", id="method").text
    for word in ("GPU waits", "Explained", "Certainty", "Gain", "Unknown"):
        assert word in method


def test_certainty_and_harm_are_told_by_shape_too(gpu_page: Element) -> None:
    def shapes(name: str) -> set[str]:
        marks = gpu_page.all("span", class_=f"mark {name}")
        return {
            str([(e.tag, e.attributes.get("class")) for e in m.one("svg").all()]) for m in marks
        }

    names = ("certain", "likely", "harmful", "harmless", "by_design", "warning", "info")
    found = [shapes(name) for name in names]
    assert all(len(shape) == 1 for shape in found)
    assert len({*map(str, found[:2])}) == 2
    assert len({*map(str, found[2:5])}) == 3
    assert found[5] != found[6]


def test_unknown_is_never_zero() -> None:
    said = read(render_page(cpu_only_run()))
    verdict = said.one("section", id="verdict").text
    assert "Step time unknown no steps in this trace" in verdict
    assert "Explained unknown no GPU in this trace" in verdict
    assert not list(said.one("section", id="verdict").all("figcaption"))
    assert (
        "How long the GPU waited is unknown for every finding: no GPU in this trace." in said.text
    )


def test_a_run_without_a_gpu_shows_what_one_would_change() -> None:
    section = read(render_page(cpu_only_run())).one("section", id="on-a-gpu")
    assert (
        "a replay of TensorFlow\N{RIGHT SINGLE QUOTATION MARK}s placer, not a measurement"
        in section.text
    )
    assert section.one("article", id="on-a-gpu-finding-0be77d53")
    assert "train/main.py:12 asks whether a GPU is listed" in section.text


def test_what_moved_no_op_is_answered_where_the_report_has_figures() -> None:
    section = read(render_page(gpu_run())).one("section", id="beliefs")
    assert section.one("dt").text == "Was the GPU's memory too full?"
    assert section.one("dd").text.startswith("GPU memory peaked at 97 % (7.76 GB of the 8.00 GB")
    assert 'id="beliefs"' not in render_page(cpu_only_run())
    assert 'href="#beliefs"' not in render_page(cpu_only_run())


def test_an_empty_trace_says_so_in_each_section() -> None:
    document = read(render_page(empty_run()))
    for name in SECTIONS[1:-1]:
        assert document.one("section", id=name).one("p", class_="nothing").text
    facts = document.one("dl", class_="facts")
    assert [fact.text for fact in facts.all("dd")] == ["empty", "unknown", "unknown"]


def test_code_in_prose() -> None:
    run = gpu_run()
    run = replace(run, health=(Health(id="x", severity="info", message="see `a<b`, not ` this"),))
    health = read(render_page(run)).one("section", id="health")
    assert not list(health.all("code"))
    run = replace(run, health=(Health(id="x", severity="info", message="see `a<b`"),))
    assert read(render_page(run)).one("section", id="health").one("code").text == "a<b"
    assert [span.text for span in spans("`a` b")] == ["a", " b"]


def test_paragraphs_and_lines_of_code() -> None:
    finding = gpu_run().findings[0]
    fix = Fix(text="one\ntwo\n\nthree", code="\tif x:\r\n\t\ty\n")
    run = replace(gpu_run(), findings=(replace(finding, fixes=(fix,)),))
    entry = read(render_page(run)).one("section", class_="fixes")
    assert [p.text for p in entry.one("li").all("p")] == ["one two", "three"]
    assert entry.one("pre").raw == "    if x:\n        y\n"


def test_a_note_becomes_a_sentence() -> None:
    run = replace(empty_run(), steps=Steps(source="missing", note="nothing marks steps", count=0))
    assert "Nothing marks steps." in read(render_page(run)).one("section", id="steps").text


def test_an_empty_text_is_none_and_not_unknown() -> None:
    run = gpu_run()
    ops = run.tables.ops
    at = ops.columns.index("input_types")
    changed = tuple((*row[:at], "", *row[at + 1 :]) for row in ops.rows)
    run = replace(run, tables=replace(run.tables, ops=replace(ops, rows=changed)))
    section = read(render_page(run)).one("section", id="ops")
    assert cells(section.one("tr", id=f"op-{PY_FUNC.op_id}"))[-1] == "none"


# --- what must not happen ------------------------------------------------------------------


def test_hostile_names_stay_text() -> None:
    page = render_page(hostile_run())
    document = read(page)
    shown = "".join(visible(HOSTILE).split())
    assert "".join(document.one("p", class_="verdict").raw.split()) == shown.replace("`", "")
    assert "<img" not in page
    programs = [s for s in document.all("script") if "type" not in s.attributes]
    assert [s.raw for s in programs] == [assets.early_script(), assets.script()]
    assert page.count("<script") == page.count("</script>") == len(list(document.all("script")))
    assert "49" not in document.one("p", class_="verdict").text
    assert "⟨U+202E⟩gnp.exe" in page
    assert len(page) - len(assets.script()) - len(assets.style()) < 250_000


def test_a_title_holds_no_more_than_a_reader_can_use() -> None:
    titles = [e.attributes.get("title") or "" for e in read(render_page(hostile_run())).all()]
    longest = max(titles, key=len)
    assert "98,000 characters left out" in longest
    assert len(longest) < 2_100


def test_a_name_that_is_cut_keeps_its_full_text_in_reach() -> None:
    run = gpu_run()
    name = "scope/" * 40 + "MatMul"
    kernels = Table(columns=("name", "count"), rows=((name, 1),), total_rows=1)
    run = replace(run, tables=replace(run.tables, kernels=kernels))
    assert read(render_page(run)).one("bdi", title=name).text.endswith("MatMul")


def test_unknown_names_in_templates_raise() -> None:
    made = environment()
    for source in ("{{ nothing }}", "{{ report.nothing }}", "{{ report.summary.verdicts }}"):
        with pytest.raises(jinja2.UndefinedError):
            made.from_string(source).render(report=gpu_run())


def test_escaping_is_on_and_never_switched_off() -> None:
    made = environment()
    assert made.autoescape is True
    assert made.undefined is jinja2.StrictUndefined
    folder = resources.files("traceanalyzer.report.page").joinpath("templates")
    templates = list(folder.iterdir())
    assert len(templates) > 20
    for template in templates:
        text = template.read_text(encoding="utf-8")
        assert not re.search(r"\|\s*safe\b|autoescape|\bstyle=", text), template.name


def test_the_report_is_the_only_context(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, object]] = []
    render = jinja2.Template.render

    def noting(self: jinja2.Template, *args: object, **context: object) -> str:
        given.append(context)
        return render(self, *args, **context)

    monkeypatch.setattr(jinja2.Template, "render", noting)
    render_page(gpu_run())
    # What was left out is told by the page's own size, not by anything but the report.
    assert [list(context) for context in given] == [["report", "has_events", "left_out"]]


def test_rendering_is_stable() -> None:
    assert render_page(gpu_run()) == render_page(gpu_run())


@pytest.mark.parametrize("name", ["a/b//c", "/device:GPU:0", "///", "", "a", "/a/b/", "x\ny/z"])
def test_breaking_a_name_loses_nothing(name: str) -> None:
    assert "".join(breakable(name)) == name


def many_ops(count: int) -> Report:
    run = gpu_run()
    finding = run.findings[0]
    ops = tuple(replace(finding.ops[0], op_id=f"{i:08x}") for i in range(count))
    table = run.tables.ops
    rows_ = tuple((f"{i:08x}", *table.rows[0][1:]) for i in range(count))
    return replace(
        run,
        findings=(replace(finding, ops=ops),),
        tables=replace(run.tables, ops=Table(columns=table.columns, rows=rows_, total_rows=count)),
        summary=replace(run.summary, cpu_ops=count),
    )


def test_a_page_of_many_ops_stays_small() -> None:
    page = render_page(many_ops(4697))
    assert "Showing 500 of 4,697 ops." in read(page).text
    assert len(page) < 1_500_000


def test_evidence_without_a_place() -> None:
    finding = replace(gpu_run().findings[0], evidence=(Evidence(kind="a_fact", text="It is."),))
    page = read(render_page(replace(gpu_run(), findings=(finding,))))
    listed = next(page.all("ul", class_="evidence"))
    assert [part.text for part in listed.all("span")] == ["a fact"]
    assert listed.one("p").text == "It is."


@pytest.mark.parametrize(
    ("causes", "said"), [(1, ""), (2, "Two causes keep"), (3, "3 causes keep")]
)
def test_a_change_that_is_not_enough_by_itself_is_said_to_be(causes: int, said: str) -> None:
    report = gpu_run()
    fix = Fix(text="Cast it.")
    blockers = tuple(
        Blocker(cause=f"cause_{n}", certainty="certain", sufficient=True, evidence=())
        for n in range(causes)
    )
    finding = replace(report.findings[0], fixes=(fix,), blockers=blockers)
    page = read(render_page(replace(report, findings=(finding,))))

    (card,) = page.all("article")
    assert ("when all are gone, not by this alone." in card.text) == bool(said)
    assert said in card.text
