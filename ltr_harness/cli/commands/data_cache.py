"""`ltr-harness data cache`: what the data cache holds, and making room."""

from __future__ import annotations

import click

from ltr_harness.cli.output import say
from ltr_harness.wording import count_of


@click.command(
    "cache",
    epilog="""\b
Examples:
  ltr-harness data cache
  ltr-harness data cache --unused 30
  ltr-harness data cache --clear
""",
)
@click.option(
    "--unused", type=click.IntRange(min=0), metavar="DAYS", help="Remove what was not read for so many days."
)
@click.option("--clear", is_flag=True, help="Remove everything.")
def cache_command(unused: int | None, clear: bool) -> int:
    """List the data that is kept parsed, the longest unused last, or remove some of it.

    Whatever is removed is parsed again when it is next asked for; runs that are reading it go on.
    """
    import time

    from ltr_harness.cache import kept_entries, remove_entries
    from ltr_harness.errors import UsageError
    from ltr_harness.files import cache_folder
    from ltr_harness.readers.cost import in_words

    if clear and unused is not None:
        raise UsageError("--clear and --unused; expected one of them")
    folder = cache_folder()
    if folder is None:
        say("the data cache is off (LTR_HARNESS_CACHE=off)")
        return 0
    now = time.time()
    entries = kept_entries(folder)
    if clear or unused is not None:
        chosen = [entry for entry in entries if clear or now - entry.used > (unused or 0) * 86_400]
        remove_entries(folder, chosen, everything=clear)
        freed = sum(entry.size for entry in chosen)
        say(f"removed {len(chosen):,} of {count_of(len(entries), 'entry')}, {in_words(freed)}: {folder}")
        return 0
    for entry in entries:
        days = int((now - entry.used) // 86_400)
        read = "today" if days <= 0 else f"{count_of(days, 'day')} ago"
        say(f"{in_words(entry.size):>9}  {read:>14}  {entry.title}")
    total = sum(entry.size for entry in entries)
    say(f"{count_of(len(entries), 'entry')}, {in_words(total)}: {folder}")
    return 0
