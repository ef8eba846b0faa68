-- An example of a handler: makes orders and their status from events. README.md in this folder says how to run it.
-- DROP SCHEMA shop CASCADE removes it.
BEGIN;
CREATE SCHEMA shop;

-- The progress of an order. The values of an enum compare in the order of this list, so a greater value is
-- further progress.
CREATE TYPE shop.status AS ENUM ('unknown', 'created', 'paid', 'shipped', 'cancelled');

CREATE TABLE shop.orders (
	order_id   text PRIMARY KEY,
	customer   text,                                   -- NULL until order.created has come
	status     shop.status NOT NULL DEFAULT 'unknown',
	items      bigint NOT NULL DEFAULT 0,
	total      numeric NOT NULL DEFAULT 0,             -- of all items
	paid       numeric NOT NULL DEFAULT 0,             -- of all payments
	address    text,
	address_at timestamptz                             -- the time of that event
);

-- One row for each order.item_added. It needs no unique key, because the handler is called once for each event.
CREATE TABLE shop.lines (
	event_id text NOT NULL,
	order_id text NOT NULL,
	sku      text NOT NULL,
	quantity int NOT NULL,
	price    numeric NOT NULL
);
CREATE INDEX ON shop.lines (order_id);

-- The handler. Start every listener with --handler shop.on_event.
--
-- Called once. A listener calls it in the transaction that inserts the event's row, and only if that row is
-- new. With copies of an event, a killed listener or a broken connection, either the row and the changes are
-- both stored, or neither is, and then another listener does the work. So "total + 5" is right here, but only
-- here: what leaves the database (a mail, a call to another service) may be done twice, or for a transaction
-- that is not committed. Use webhooks for that.
--
-- In any order. Listeners work in parallel, so what was sent first may come last: order.paid may come before
-- order.created. So the code below does not depend on earlier events. Three ways to be right in any order:
--   * sums:  additions may be made in any order (items, total, paid);
--   * ranks: keep the further of two statuses (status);
--   * times: keep the later of two values, by the time in the event, not by its arrival (address).
--
-- Raising. An event that makes the handler raise fails alone: nothing of it is stored, its neighbours are. It is
-- tried --max-attempts times, since the cause may pass (a lock, a row that is still missing), and then becomes a
-- dead letter with the message of the exception. Repair the function, the data or the event, and run
-- "wsonce dead-letters retry" with the same --handler.
--
-- Fast. It holds locks on what it changes, and all events of its batch wait for it. Two batches that change the
-- same orders in a different order may deadlock; Postgres ends one of them, and the listener sends it again.
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
		RETURN; -- not ours: its row in events is enough
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

	-- The first event of an order makes its row. "excluded" has the values of this event, o those in the table.
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
