import logging
import os
from pathlib import Path

import pytest

from tests.corpus import CORPUS, needs_corpus
from traceanalyzer.errors import TraceAnalyzerError, TraceNotFoundError
from traceanalyzer.trace import discovery
from traceanalyzer.trace.discovery import CAPTURE_FILE, HostFile, choose_run, find_runs

RUN = "2021_02_03_21_48_13"


def put(root: Path, *names: str, content: bytes = b"x") -> None:
    for name in names:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def names(path: Path | str) -> list[str]:
    return [run.name for run in find_runs(path)]


def error(path: Path | str) -> str:
    with pytest.raises(TraceAnalyzerError) as caught:
        find_runs(path)
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert text.isprintable()
    return text


# What a user may point at.


@pytest.mark.parametrize(
    "below", ["", "logs", "logs/plugins", "logs/plugins/profile", f"logs/plugins/profile/{RUN}"]
)
def test_a_run_is_found_from_every_directory_above_it(tmp_path: Path, below: str) -> None:
    put(tmp_path, f"logs/plugins/profile/{RUN}/a.b.xplane.pb")
    (run,) = find_runs(tmp_path / below)
    assert run.name == RUN
    assert run.path == tmp_path / "logs/plugins/profile" / RUN
    assert run.hosts == (HostFile(host="a.b", path=run.path / "a.b.xplane.pb", format="xplane"),)


# What a run holds.


def test_an_xplane_is_preferred_since_the_other_files_are_cut_down_from_it(tmp_path: Path) -> None:
    put(tmp_path, *(f"r/a.{s}" for s in ("trace.json.gz", "xplane.pb.gz", "xplane.pb")))
    assert [h.path.name for h in find_runs(tmp_path)[0].hosts] == ["a.xplane.pb"]


def test_an_empty_xplane_gives_way_and_that_is_said(tmp_path: Path) -> None:
    put(tmp_path, "r/a.xplane.pb", content=b"")
    put(tmp_path, "r/a.trace.json.gz")
    (host,) = find_runs(tmp_path)[0].hosts
    assert (host.path.name, host.format) == ("a.trace.json.gz", "trace.json")
    assert "a.xplane.pb is empty" in host.note
    assert "2 GiB" in host.note


# Several runs.


def test_the_newest_comes_first_by_name_or_by_the_time_of_its_files(tmp_path: Path) -> None:
    profile = tmp_path / "plugins/profile"
    put(profile, "2021_02_03_00_00_00/a.xplane.pb", "2022-02-03_00-00-00/a.xplane.pb")
    put(profile, "between/a.xplane.pb")
    os.utime(profile / "between/a.xplane.pb", (1.63e9, 1.63e9))  # 2021-08-26
    assert names(tmp_path) == ["2022-02-03_00-00-00", "between", "2021_02_03_00_00_00"]


def test_a_run_is_chosen_by_name_or_is_the_newest(tmp_path: Path) -> None:
    put(tmp_path, *(f"{d}/plugins/profile/{RUN}/a.xplane.pb" for d in ("train", "validation")))
    put(tmp_path, "plugins/profile/2020_01_01_00_00_00/a.xplane.pb")
    put(tmp_path, "plugins/profile/2019_01_01_00_00_00/a.overview_page.pb")
    runs = find_runs(tmp_path)
    assert choose_run(runs) == runs[0]
    assert choose_run(runs, f"train/{RUN}").name == f"train/{RUN}"
    assert choose_run(runs, "2020_01_01_00_00_00").path.name == "2020_01_01_00_00_00"
    with pytest.raises(TraceNotFoundError, match="2 runs are named"):
        choose_run(runs, RUN)
    with pytest.raises(TraceNotFoundError, match=r"no run nope; choose one of: .*train"):
        choose_run(runs, "nope")
    with pytest.raises(TraceNotFoundError, match=r"2019.*only data that TensorFlow converted"):
        choose_run(runs, "2019_01_01_00_00_00")


# Bad input: one line each.


def test_a_directory_with_only_tool_files(tmp_path: Path) -> None:
    put(tmp_path, f"plugins/profile/{RUN}/h.overview_page.pb", f"plugins/profile/{RUN}/h.odd.pb")
    text = error(tmp_path)
    assert "only data that TensorFlow converted for TensorBoard's tools (overview_page)" in text
    assert "copy HOST.xplane.pb or HOST.trace.json.gz" in text


def test_a_hostile_name_stays_on_one_printable_line(tmp_path: Path) -> None:
    hostile = tmp_path / "a\nb\x1b[31m\udcff"
    assert r"a\nb\x1b[31m\udcff" in error(hostile)
    hostile.mkdir()
    assert "no trace" in error(hostile)


# The walk ends, and touches nothing.


def test_links_are_followed_and_loops_end(tmp_path: Path) -> None:
    put(tmp_path, f"elsewhere/plugins/profile/{RUN}/a.xplane.pb")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "logs/loop").symlink_to(tmp_path / "logs")
    (tmp_path / "logs/self").symlink_to("self")
    (tmp_path / "logs/gone").symlink_to("gone-too")
    (run,) = find_runs(tmp_path / "logs")
    assert run.path == tmp_path / "logs/linked/plugins/profile" / RUN


def test_the_walk_stops_at_its_limit_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(discovery, "MAX_ENTRIES", 20)
    put(tmp_path, *(f"{i:02}/file" for i in range(30)))
    assert "among the first 21 entries" in error(tmp_path)
    put(tmp_path, "a.xplane.pb")
    monkeypatch.setattr(discovery, "MAX_ENTRIES", 40)
    with caplog.at_level(logging.WARNING, "traceanalyzer"):
        assert len(find_runs(tmp_path)) == 1
    assert "the search stopped after 41 entries" in caplog.text


# The corpus.


@needs_corpus
def test_every_folder_of_the_corpus_has_runs_or_a_plain_line() -> None:
    for folder in sorted(p for p in CORPUS.iterdir() if p.is_dir()):
        if folder.name == "oldfmt-tfprofiler-demo":
            assert "only data that TensorFlow converted" in error(folder)
        else:
            assert all(run.hosts for run in find_runs(folder))


# What a capture recorded beside a trace.


class TestCaptureFiles:
    def test_belong_to_the_host_of_their_name(self, tmp_path: Path) -> None:
        put(tmp_path, "r/a.xplane.pb", "r/b.xplane.pb", "r/a.placement.json.gz")

        (run,) = find_runs(tmp_path)

        assert [h.capture_file for h in run.hosts] == [tmp_path / "r/a.placement.json.gz", None]

    @pytest.mark.parametrize("folder", ["plugins/profile/run", "elsewhere"])
    def test_without_a_trace_are_a_run(self, tmp_path: Path, folder: str) -> None:
        put(tmp_path, f"{folder}/a.placement.json.gz")

        (run,) = find_runs(tmp_path)

        (host,) = run.hosts
        assert (host.host, host.format) == ("a", CAPTURE_FILE)
