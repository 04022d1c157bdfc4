"""Tests of the package. A client that never sends an awaited message must not block the test run for long."""

import faulthandler

#: The time limit for all tests, in seconds; they take a few.
LIMIT = 300

faulthandler.dump_traceback_later(LIMIT, exit=True)
