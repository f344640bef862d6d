"""Guards: who is asked at a message's time, in a table of the user's, whether it is sent. What is declared, and how it
is asked; what waits for an answer is in `hand.guards`."""
