"""Changes made by hand, for tests of what shows them."""

from typing import Any

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.model.changes import Candidate, Change, Edit, Saving

EDIT = Edit(
    file="program.py",
    line=49,
    old=('asked = tf.Variable(tf.zeros([8], tf.int32), name="asked")',),
    new=('asked = tf.Variable(tf.zeros([8], tf.int64), name="asked")',),
)


def change(diagnosis: Diagnosis, **more: Any) -> Change:  # noqa: ANN401 - fields of a change
    """A change about all CPU ops of a run: one edit, verified, with a saving."""
    finding = next(iter(diagnosis.findings), None)
    given: dict[str, Any] = {
        "id": "a1",
        "kind": "edit",
        "title": "Create `asked` as int64",
        "place": ("program.py", 49),
        "also": (),
        "edits": (EDIT,),
        "why": "int32 variables cannot be on the GPU.",
        "saving": Saving(kind="upper_bound", high_us=40, share=0.4),
        "is_verified": True,
        "finding_ids": () if finding is None else (finding.id,),
        "op_ids": tuple(diagnosis.run.ops["op_id"][diagnosis.run.ops["placement"] == "cpu"]),
    }
    return Change(**given | more)


UNKNOWN = Candidate(
    cause="explicit_cpu_placement",
    title="Your code asks for the CPU",
    explains_directly=1,
    explains_following=0,
    check='grep -n "tf.device" *.py',
    edit="Remove the scope.",
)
