"""What a user can change, and what each change saves: findings grouped by edit."""

from __future__ import annotations

from traceanalyzer.changes.change import Candidate as Candidate
from traceanalyzer.changes.change import Change as Change
from traceanalyzer.changes.change import Edit as Edit
from traceanalyzer.changes.change import Saving as Saving
from traceanalyzer.changes.change import diff_of as diff_of
from traceanalyzer.changes.find import changes_of as changes_of
