-- Orders and their status, made from events: an example of a handler. README.md beside it tells how to run it.
-- To be rid of it again: DROP SCHEMA shop CASCADE.
BEGIN;
CREATE SCHEMA shop;

-- How far an order can be. An enum's values compare in the order in which they stand here, and that is all
-- that we need to know about "further".
CREATE TYPE shop.status AS ENUM ('unknown', 'created', 'paid', 'shipped', 'cancelled');

CREATE TABLE shop.orders (
	order_id   text PRIMARY KEY,
	customer   text,                                   -- NULL until order.created has come
	status     shop.status NOT NULL DEFAULT 'unknown',
	items      bigint NOT NULL DEFAULT 0,
	total      numeric NOT NULL DEFAULT 0,             -- of all items
	paid       numeric NOT NULL DEFAULT 0,             -- of all payments
	address    text,
	address_at timestamptz                             -- when the customer said so
);

-- One row for each order.item_added. There is no unique key on purpose: none is needed, because the handler
-- is called once for each event.
CREATE TABLE shop.lines (
	event_id text NOT NULL,
	order_id text NOT NULL,
	sku      text NOT NULL,
	quantity int NOT NULL,
	price    numeric NOT NULL
);
CREATE INDEX ON shop.lines (order_id);

-- The handler: name it to every listener, with --handler shop.on_event.
--
-- Called once. A listener calls it in the transaction that inserts the event's row, and only if that row is
-- new. Copies of an event, a listener that is killed, a connection that breaks: either row and changes are
-- there, both, or neither, and then another listener does it. So "total + 5" is right, here and nowhere else:
-- what leaves the database (a mail, a call to another service) may be done twice, or be done for a transaction
-- that is not committed. That is what webhooks are for.
--
-- In any order. Listeners work side by side, and what was sent first may come last; order.paid may be here
-- before order.created. So nothing below asks what has been before. Three ways to be right in any order:
--   * sums:  what is added may be added in any order (items, total, paid);
--   * ranks: of two statuses the further one stays (status);
--   * times: of two values the later one stays, by the event's own time, not by when it came (address).
--
-- Raising. An event that we cannot use fails alone: nothing of it stays, its neighbours are stored. It is tried
-- --max-attempts times (the cause may pass: a lock, a row that is missing yet), and then it is a dead letter
-- with the message of the exception. Repair the function, the data or the event, and "wsonce dead-letters retry",
-- with the same --handler, feeds it once more.
--
-- Fast. It holds locks on what it changes, and all events of its batch wait with it. Two batches that want the
-- same orders in a different order may lock each other out; Postgres ends one of them, which is then sent again.
CREATE FUNCTION shop.on_event(event_id text, event_type text, payload jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	reached    shop.status := 'unknown';
	quantity   int := 0;
	price      numeric := 0;
	paid       numeric := 0;
	moved_to   text;
	moved_at   timestamptz;
BEGIN
	IF event_type NOT LIKE 'order.%' THEN
		RETURN; -- not ours: its row in events is all
	END IF;
	IF payload->>'order' IS NULL THEN
		RAISE EXCEPTION 'the payload of % names no order', event_type;
	END IF;

	CASE event_type
	WHEN 'order.created' THEN
		reached := 'created';
	WHEN 'order.item_added' THEN
		quantity := payload->>'quantity';
		price := payload->>'price';
		INSERT INTO shop.lines VALUES (event_id, payload->>'order', payload->>'sku', quantity, price);
	WHEN 'order.paid' THEN
		reached := 'paid';
		paid := payload->>'amount';
	WHEN 'order.shipped' THEN
		reached := 'shipped';
	WHEN 'order.cancelled' THEN
		reached := 'cancelled';
	WHEN 'order.address_changed' THEN
		moved_to := payload->>'address';
		moved_at := payload->>'at';
	ELSE
		RAISE EXCEPTION 'there is no event type %', event_type;
	END CASE;

	-- The event of an order that comes first makes its row. "excluded" is what this one brings, o what is there.
	INSERT INTO shop.orders AS o (order_id, customer, status, items, total, paid, address, address_at)
	VALUES (payload->>'order', payload->>'customer', reached, quantity, quantity * price, paid, moved_to, moved_at)
	ON CONFLICT (order_id) DO UPDATE SET
		customer = coalesce(excluded.customer, o.customer),
		status = greatest(excluded.status, o.status),
		items = o.items + excluded.items,
		total = o.total + excluded.total,
		paid = o.paid + excluded.paid,
		address = CASE WHEN excluded.address_at > coalesce(o.address_at, '-infinity') THEN excluded.address
			ELSE o.address END,
		address_at = greatest(excluded.address_at, o.address_at);
END
$$;
COMMIT;
