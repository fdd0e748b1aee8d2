"""What a user can change, and what each change saves: findings grouped by edit."""

from traceanalyzer.changes.find import changes_of as changes_of
from traceanalyzer.model.changes import Candidate as Candidate
from traceanalyzer.model.changes import Change as Change
from traceanalyzer.model.changes import Edit as Edit
from traceanalyzer.model.changes import Saving as Saving
