"""`tarry demo`: a day of flights, a kill, and a ledger of what was promised."""
