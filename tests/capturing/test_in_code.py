"""Capturing a block of code, and some steps of Keras."""

import textwrap
from pathlib import Path

import pytest

from tests.emulator.oracle import Outcome, the_oracle
from traceanalyzer.capture_file import files
from traceanalyzer.capturing import in_code
from traceanalyzer.capturing.in_code import Capture, capture
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.trace.xplane import ProfileOptions

DEFAULT_LEVELS = ProfileOptions(host_tracer_level=2, device_tracer_level=1, python_tracer_level=0)


def run(folder: Path, code: str) -> Outcome:
    """Run a program in a process that has imported TensorFlow."""
    program = folder / "program.py"
    program.write_text(f"import os; os.chdir({str(folder)!r})\n" + textwrap.dedent(code))
    return the_oracle().run(program, gpus=0)


def test_captures_a_block(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import sys
        import tensorflow as tf
        import traceanalyzer

        @tf.function
        def during(x):
            return tf.sin(x, name="in_the_block")

        with traceanalyzer.capture("logs", run="one") as captured:
            x = tf.ones([2])
            during(x)
            tf.cos(x)
            print("of the program", file=sys.stderr)
        print(captured.run_path, captured.notes)
        print(captured.report())
        try:
            with traceanalyzer.capture("logs", run="two"):
                raise KeyError("of the block")
        except KeyError as error:
            print(error, error.__traceback__.tb_next)
        try:
            with traceanalyzer.capture("logs", run="one"):
                pass
        except traceanalyzer.TraceAnalyzerError as error:
            print(error)
        """,
    )
    assert done.exit_code == 0, done.stderr
    path = tmp_path / "logs" / "plugins" / "profile" / "one"
    assert done.stdout.splitlines()[:3] == [
        f"{path} []",
        "traceanalyzer-report.html",
        "'of the block' None",
    ]
    assert "already exists in" in done.stdout
    assert (tmp_path / "traceanalyzer-report.html").stat().st_size > 10_000
    assert "of the program\n" in done.stderr
    [trace] = path.glob("*.xplane.pb")
    assert b"in_the_block:Sin" in trace.read_bytes()
    capture_file = files.read(files.path_beside(trace))
    assert capture_file is not None
    assert capture_file.complete
    [session] = capture_file.sessions
    assert session.requested == DEFAULT_LEVELS
    assert [f.name.startswith("__inference_during_") for f in capture_file.functions] == [True]
    assert "captured_in_code" in {note.id for note in capture_file.notes}
    assert {s.op for s in capture_file.signatures} >= {"Cos"}
    assert {"tf.cos(x)", 'return tf.sin(x, name="in_the_block")'} <= {
        f.text for f in capture_file.frames
    }
    assert capture_file.command is None
    assert (tmp_path / "logs" / "plugins" / "profile" / "two").is_dir()


def test_errors_keep_their_class_and_a_capture_can_be_used_again(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import numpy as np
        import tensorflow as tf
        import traceanalyzer

        @tf.function
        def positive(x):
            tf.debugging.assert_positive(x)
            return x

        @tf.function
        def load(x):
            raise tf.errors.ResourceExhaustedError(None, None, "no room")

        captured = traceanalyzer.capture("logs")
        for attempt in range(2):
            with captured:
                for function in (positive, load):
                    try:
                        function(-1.0)
                    except (tf.errors.InvalidArgumentError, tf.errors.ResourceExhaustedError):
                        print("handled", attempt)
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        callback = traceanalyzer.capture_callback("logs", steps=(1, 2))
        for _ in range(2):
            model.fit(np.ones((8, 1)), np.ones(8), 2, verbose=0, callbacks=[callback])
            print(callback.captured.trace is not None)
        """,
    )

    assert done.exit_code == 0, done.stderr
    assert done.stdout.split("\n")[:4] == ["handled 0"] * 2 + ["handled 1"] * 2
    assert done.stdout.splitlines()[4:] == ["True", "True"]


def test_functions_that_were_traced_before_the_block_have_graphs(tmp_path: Path) -> None:
    code = """
        import sys
        import numpy as np
        import tensorflow as tf
        import traceanalyzer
        tf.keras.utils.set_random_seed(7)

        class Counter(tf.Module):
            def __init__(self):
                self.total = tf.Variable(tf.zeros([3]))

            @tf.function(input_signature=[tf.TensorSpec([3])])
            def count(self, x):
                tf.print("ran", output_stream=sys.stdout)
                with tf.device("CPU:0"):
                    self.total.assign_add(tf.square(x, name="pinned"))
                return self.total + tf.random.normal([3], seed=1)

        @tf.function(jit_compile=True)
        def compiled(x):
            return x * 2.0 + 1.0

        model = tf.keras.Sequential([
            tf.keras.layers.Input((4,)), tf.keras.layers.Dropout(0.5), tf.keras.layers.Dense(1)
        ])
        model.compile("adam", "mse")
        x, y = np.ones((32, 4), "float32"), np.ones((32, 1), "float32")
        counter = Counter()

        def use():
            model.fit(x, y, 8, verbose=0)
            counter.count(tf.ones([3]))
            loaded.count(tf.ones([3]))
            print(counter.total.numpy(), loaded.total.numpy(), compiled(tf.ones([2])).numpy())
            print(counter.count(tf.ones([3])).numpy(), model.get_weights())

        tf.saved_model.save(counter, "saved")
        loaded = tf.saved_model.load("saved")
        use()
        if CAPTURES:
            with traceanalyzer.capture("logs", run="one") as captured:
                use()
            assert captured.notes == [], captured.notes
            captured.report("report.html")
            with traceanalyzer.capture("logs", run="two") as captured:
                use()
            [note] = captured.notes  # TensorFlow would keep the instances of each capture
            assert "first capture" in note, note
        else:
            use()
            use()
        """
    plain = run(tmp_path, "CAPTURES = False\n" + textwrap.dedent(code))
    done = run(tmp_path, "CAPTURES = True\n" + textwrap.dedent(code))
    assert done.exit_code == 0, done.stderr
    assert done.stdout == plain.stdout
    assert "Dumped" not in done.stderr
    [trace] = (tmp_path / "logs" / "plugins" / "profile" / "one").glob("*.xplane.pb")
    capture_file = files.read(files.path_beside(trace))
    assert capture_file is not None
    assert capture_file.has_earlier_resources
    found = {f.name: f.instances for f in capture_file.functions}
    assert any("_step_on_" in each for each in found)
    pinned = [
        (instance, at, name)
        for name, instances in found.items()
        for instance in instances
        for at, node in enumerate(instance.input.names)
        if node.endswith("pinned")
    ]
    assert len(pinned) == 2  # in the object's function, and in the loaded one
    for instance, at, _ in pinned:
        assert instance.input.devices[at].endswith("CPU:0")
        assert all(instance.assigned)
        assert instance.partitions
    (own,) = {name for _, _, name in pinned if "_count_" in name}
    definition = capture_file.definition(own)
    assert definition is not None
    lines = {capture_file.frames[at].text for at in definition.frames if at >= 0}
    assert any(text and "pinned" in text for text in lines)

    assert "This assumes that the code before" in (tmp_path / "report.html").read_text()


def test_says_how_to_record_functions_that_have_no_graph(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import tensorflow as tf
        import traceanalyzer
        from traceanalyzer.capturing.recorder import dump_switch
        dump_switch._ABSEIL = ()  # as with an older TensorFlow

        @tf.function
        def before(x):
            return tf.sin(x) * 2.0

        before(tf.ones([2]))
        with traceanalyzer.capture("logs") as captured:
            before(tf.ones([2]))
        print(captured.notes)
        captured.report("report.html")
        """,
    )
    assert done.exit_code == 0, done.stderr
    assert "traceanalyzer capture script.py" in done.stdout
    assert "Dumped" not in done.stderr
    page = (tmp_path / "report.html").read_text()
    verdict = page.index("TensorFlow was used before the capture began")
    assert verdict < page.index("What to change")


@pytest.mark.slow
def test_captures_some_steps_of_keras(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import numpy as np
        import tensorflow as tf
        import traceanalyzer
        model = tf.keras.Sequential([tf.keras.layers.Dense(2)])
        model.compile("sgd", "mse")
        callback = traceanalyzer.capture_callback("logs", steps=(3, 4))
        model.fit(np.ones((40, 3)), np.ones((40, 2)), 4, verbose=0, callbacks=[callback])
        print(callback.captured.trace.exists(), callback.captured.notes)
        """,
    )
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "True []\n"
    [trace] = (tmp_path / "logs").rglob("*.xplane.pb")
    capture_file = files.read(files.path_beside(trace))
    assert capture_file is not None
    (step,) = [f for f in capture_file.functions if "_step_on_" in f.name]
    assert step.instances


class Told:
    """Stands in for a capture."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.fails = False

    def __enter__(self) -> None:
        if self.fails:
            raise TraceAnalyzerError("no room")  # noqa: EM101, TRY003
        self.told.append("begin")

    def __exit__(self, *_: object) -> None:
        if self.told == ["begin"]:
            self.told.append("end")


def fit(steps: in_code._StepsCapture, batches: int) -> None:
    steps.on_train_begin()
    for batch in range(batches):
        steps.on_train_batch_begin(batch)
        steps.on_train_batch_end(batch)
    steps.on_train_end()


@pytest.mark.parametrize(
    ("batches", "told"), [(9, []), (15, ["begin", "end"]), (30, ["begin", "end"])]
)
def test_the_steps_are_counted_from_one(batches: int, told: list[str]) -> None:
    ours = Told()
    fit(in_code._StepsCapture(ours, 10, 20), batches)  # type: ignore[arg-type] # noqa: SLF001
    assert ours.told == told


def test_the_fit_goes_on_where_nothing_can_be_recorded(caplog: pytest.LogCaptureFixture) -> None:
    ours = Told()
    ours.fails = True
    fit(in_code._StepsCapture(ours, 1, 1), 3)  # type: ignore[arg-type] # noqa: SLF001
    assert "no room" in caplog.text


def test_one_capture_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Capture, "_under_way", capture("logs"))
    with pytest.raises(TraceAnalyzerError, match="another capture"), capture("logs"):
        pass
