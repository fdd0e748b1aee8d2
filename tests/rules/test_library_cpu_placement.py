"""What is said of library code is so in the sources of the TensorFlow and Keras installed here."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from traceanalyzer.evidence.examples import held, line, subject
from traceanalyzer.rules.library_cpu_placement import HABITS, RULE

# A scope for the CPU, or for the device of another variable, as code opens it.
_SCOPE = re.compile(
    r"""with\s[^#\n]*device(?:_scope)?\(\s*["'/\w:]*cpu|set_cpu0\(|colocate_vars_with\("""
    # What feeds devices asks for the device of the dataset, which is the CPU unless it is named.
    r"""|device\(self\._source_device""",
    re.IGNORECASE,
)
# Of Keras 2 and of the Keras that TensorFlow still carries: not what is installed beside 2.21.
_OF_KERAS_2 = {
    "keras/optimizers/optimizer.py",
    "keras/src/optimizers/optimizer.py",
    "tf_keras/src/optimizers/optimizer.py",
    "keras/callbacks.py",
    "keras/src/callbacks.py",
    "keras/layers/rnn/gru_lstm_utils.py",
    "keras/src/layers/rnn/gru_lstm_utils.py",
    "keras/src/metrics/py_metric.py",
    "tf_keras/src/callbacks.py",
    "tf_keras/src/layers/rnn/gru_lstm_utils.py",
    "tf_keras/src/metrics/py_metric.py",
    "tensorflow/python/keras/layers/recurrent_v2.py",
}
_FILES = [file for habit in HABITS for file in habit.files if file not in _OF_KERAS_2]
_EMBEDDINGS = "keras/src/layers/core/embedding.py"


def installed(file: str) -> Path:
    """Where a file of an installed package is; the package is not imported."""
    package, _, rest = file.partition("/")
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed")
    return Path(spec.origin).parent / rest


def code_of(path: Path) -> str:
    """The source of a file, or of all in a folder."""
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    texts = [f.read_text(encoding="utf-8") for f in files if not f.name.endswith("_test.py")]
    return "\n".join(texts)


@pytest.mark.parametrize("file", _FILES)
def test_the_library_opens_a_scope_for_the_cpu_there(file: str) -> None:
    path = installed(file)

    assert path.exists()
    assert _SCOPE.search(code_of(path))


def test_an_embedding_layer_opens_none() -> None:
    code = code_of(installed(_EMBEDDINGS))

    # What stands in the docstring of some versions is an example for the reader.
    assert not _SCOPE.search(re.sub(r'"""[\s\S]*?"""', "", code))


@pytest.mark.parametrize("file", [file for habit in HABITS for file in habit.files])
def test_a_scope_of_such_a_file_is_known_for_what_it_is(file: str) -> None:
    name = f"{file}inside.py" if file.endswith("/") else file
    frame = line(9, is_user=False, file=f"/usr/lib/python3/site-packages/{name}")
    found = held("request", "Cast", asked="/device:CPU:0", scope="CPU:0", scope_frame=frame)

    mark = RULE.recognises(subject("Cast"), found)

    assert mark is not None
    assert mark.sub_reason in {habit.sub_reason for habit in HABITS if file in habit.files}
    # An optimizer asks for the device of the model's variable: where there is a GPU, for that.
    assert (mark.certainty == "likely") == (mark.sub_reason == "optimizer_slot")


def test_where_a_library_is_installed_does_not_show() -> None:
    frame = line(9, is_user=False, file="/srv/me/env/lib/site-packages/keras/src/callbacks/x.py")
    found = held("request", "Cast", asked="/device:CPU:0", scope_frame=frame)

    mark = RULE.recognises(subject("Cast"), found)

    assert mark is not None
    assert "/home" not in f"{mark}"
    assert RULE.words is not None
    assert "/home" not in f"{RULE.words([(subject('Cast'), found)])}"


def test_each_habit_is_said_in_its_own_words() -> None:
    assert RULE.words is not None
    said = {}
    for habit in HABITS:
        file = f"{habit.files[0]}inside.py" if habit.files[0].endswith("/") else habit.files[0]
        made = line(9, is_user=False, file=f"/usr/lib/site-packages/{file}")
        frame = replace(made, code="opens")
        found = held("request", "Cast", asked="/device:CPU:0", scope="CPU:0", scope_frame=frame)
        said[habit.sub_reason] = RULE.words([(subject("Cast"), found)])

    shapes = {re.sub(r"\W*\bCast\b.*", "", words.title) for words in said.values()}
    assert len(shapes) == len(HABITS)
    for habit in HABITS:
        words = said[habit.sub_reason]
        assert "Cast" in words.title
        assert "{" not in words.title
        assert f"{file_name(habit.files[0])}:9, in `opens`" in words.why
        assert habit.versions in words.why


def file_name(file: str) -> str:
    return "inside.py" if file.endswith("/") else Path(file).name


def test_a_preprocessing_layer_is_named() -> None:
    assert RULE.words is not None
    file = "/usr/lib/site-packages/keras/src/layers/preprocessing/text_vectorization.py"
    frame = line(9, is_user=False, file=file)
    found = held("request", "StringSplitV2", asked="/device:CPU:0", scope_frame=frame)

    words = RULE.words([(subject("StringSplitV2"), found)])

    assert words.title.startswith("The layer TextVectorization preprocesses on the CPU")
    assert words.fixes[0].code is not None
    assert "dataset.map" in words.fixes[0].code
