"""Changes that a user can make, each with its saving. One change can fix several findings."""

from traceanalyzer.changes.find import changes_of as changes_of
from traceanalyzer.changes.find import moves_ops as moves_ops
from traceanalyzer.model.changes import Candidate as Candidate
from traceanalyzer.model.changes import Change as Change
from traceanalyzer.model.changes import Edit as Edit
from traceanalyzer.model.changes import Saving as Saving
