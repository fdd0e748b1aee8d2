"""The entries about library code agree with the installed TensorFlow and Keras."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.causes.examples import blocker, cpu_op, line
from traceanalyzer.causes import BlockedOps, library_cpu_placement
from traceanalyzer.causes.library_cpu_placement import LIBRARY_CODE

# A scope for the CPU, or for the device of another variable, as code opens it.
_SCOPE = re.compile(
    r"""with\s[^#\n]*device(?:_scope)?\(\s*["'/\w:]*cpu|set_cpu0\(|colocate_vars_with\("""
    # An iterator that feeds devices requests the dataset's device: by default the CPU.
    r"""|device\(self\._source_device"""
    # An optional is unpacked where it is, which is on the CPU.
    r"""|colocate_with\(self\._variant_tensor"""
    # A copied graph has the requests of its nodes.
    r"""|_MaybeDevice\(original_device|device\(op\.device""",
    re.IGNORECASE,
)
# Of Keras 2, and of the Keras inside TensorFlow: not of the Keras that is installed beside 2.21.
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
_FILES = [file for code in LIBRARY_CODE for file in code.files if file not in _OF_KERAS_2]
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

    # Docstrings of some versions contain an example.
    assert not _SCOPE.search(re.sub(r'"""[\s\S]*?"""', "", code))


@pytest.mark.parametrize("file", [file for code in LIBRARY_CODE for file in code.files])
def test_a_scope_of_such_a_file_is_known_for_what_it_is(file: str) -> None:
    name = f"{file}inside.py" if file.endswith("/") else file
    frame = line(9, is_user=False, file=f"/usr/lib/python3/site-packages/{name}")
    found = blocker(
        "request", "Cast", requested_device="/device:CPU:0", scope="CPU:0", scope_frame=frame
    )

    mark = library_cpu_placement.match(cpu_op("Cast"), found)

    assert mark is not None
    assert mark.sub_reason in {code.id for code in LIBRARY_CODE if file in code.files}
    # An optimizer asks for the device of the model's variable: where there is a GPU, for that.
    assert (mark.certainty == "likely") == (mark.sub_reason == "optimizer_slot")


def test_a_preprocessing_layer_is_named_as_the_model_has_it() -> None:
    """A `TextVectorization` looks its words up by a `StringLookup` of its own."""
    frame = line(
        850, is_user=False, file="/site-packages/keras/src/layers/preprocessing/index_lookup.py"
    )
    found = blocker("request", "SelectV2", requested_device="/device:CPU:0", scope_frame=frame)
    op = cpu_op("SelectV2", name="model_1/text_vectorization_1/SelectV2")

    assert (
        "(text_vectorization_1)" in library_cpu_placement.describe(BlockedOps(((op, found),))).title
    )
