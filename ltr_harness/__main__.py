"""`python -m ltr_harness` is `ltr-harness`."""

from ltr_harness.cli import main

main()
