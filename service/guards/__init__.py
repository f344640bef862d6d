"""Guards: how they are declared, and how their table is asked at a message's time whether the message is sent.
`engine.dispatch` holds the messages that wait for an answer."""
