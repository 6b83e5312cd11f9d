"""One file per question the report answers; each a pure function from data to blocks."""
