"""One file for each question that the report answers; each section is a pure function from data to blocks."""
