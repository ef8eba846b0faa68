-- The batch as a stream, at little more than half the cost of the INSERT; but one row that is there
-- already refuses them all.
COPY events (event_id, event_type, payload) FROM STDIN (FORMAT binary)
