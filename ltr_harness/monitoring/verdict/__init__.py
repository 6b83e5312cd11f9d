"""What ends in an alert, and the sentences that say so."""
