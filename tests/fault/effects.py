"""The effects of events in their own transaction: owns the handler that the listeners call, and compares its calls with
the rows. The handler inserts a row into a table without a unique key, so that a second call is visible."""
from marked import TYPE
from postgres_faults import RAISE

HANDLER = "rig.handle"

SETUP = f"""CREATE SCHEMA rig;
CREATE TABLE rig.effects (event_id text NOT NULL);
CREATE INDEX ON rig.effects (event_id);
CREATE TABLE rig.mood (is_bad bool NOT NULL);
INSERT INTO rig.mood VALUES (false);
CREATE FUNCTION {HANDLER}(event_id text, event_type text, payload jsonb) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO rig.effects VALUES (event_id);
    IF event_type = '{TYPE}' THEN RAISE EXCEPTION 'the rig does not take this one'; END IF;
    IF hashtext(event_id) & 7 = 1 AND (SELECT is_bad FROM rig.mood) THEN {RAISE.format("event_id")}; END IF;
END $$"""

ODD = """SELECT CASE WHEN e.event_id IS NULL THEN 'effects_without_row' WHEN n IS NULL THEN 'effects_lost'
ELSE 'effects_doubled' END, event_id FROM (SELECT event_id FROM %s) AS e FULL JOIN
(SELECT event_id, count(*) AS n FROM rig.effects GROUP BY event_id) AS f USING (event_id) WHERE e.event_id IS NULL OR n IS DISTINCT FROM 1"""


class Effects:
    handler = HANDLER

    def __init__(self, rig):
        self.rig = rig
        self.known = set()              # offenders of earlier rounds

    async def create(self):
        space = "SET default_tablespace = small;" if self.rig.postgres.has_disk else ""
        await self.rig.sql(f"SET ROLE wsonce; {space} {SETUP}")

    async def set_mood(self, is_bad):
        await self.rig.sql(f"UPDATE rig.mood SET is_bad = {is_bad}")

    async def judge(self):
        for line in (await self.rig.sql(ODD % self.rig.tables.processed)).splitlines():
            what, event_id = line.split("|")
            if line not in self.known:
                self.rig.verdict.find(what, event_id)
            self.known.add(line)
