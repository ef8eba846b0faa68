-- Which ids had duplicates that day. keys has the number of copies by the hash of the id, for the 256 smallest hashes: a
-- sample that can be merged, and all of them if there are fewer. closest and farthest are [delay in ms, event_id].
ALTER TABLE :schema.wsonce_duplicates
	ADD COLUMN IF NOT EXISTS keys     JSONB NOT NULL DEFAULT '{}',
	ADD COLUMN IF NOT EXISTS closest  JSONB,
	ADD COLUMN IF NOT EXISTS farthest JSONB;
