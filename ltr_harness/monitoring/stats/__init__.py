"""Tests that only production logs need: several samples, adjustment for what differs, drift."""
