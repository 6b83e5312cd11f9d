"""Tools that know nothing of rankings: text, files, tables of names, compiled loops, cores, stored forms, user code."""
