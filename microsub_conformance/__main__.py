"""`python -m microsub_conformance`, for a checkout."""

from microsub_conformance.command import conformance

conformance(prog_name="microsub-conformance")
