-- Webhooks that are paused, by an operator or because their receiver answered 410 (Gone). Nothing is leased for them.
CREATE TABLE IF NOT EXISTS :schema.webhook_pauses (
	target    VARCHAR PRIMARY KEY,
	reason    TEXT NOT NULL,
	paused_by TEXT NOT NULL DEFAULT session_user,
	paused_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
