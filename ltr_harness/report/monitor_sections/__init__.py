"""The report of `ltr-harness monitor`: a section per question, in the order a reader asks them."""
