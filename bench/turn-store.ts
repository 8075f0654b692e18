// Fills a data folder with what takes longest to read, before Keyrun starts on it: 10,000 keys of
// one team and as many revoked ones, 10,000 keys whose values are known, two years of usage, and
// an audit log of 300,000 events.
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { createKeyForm, redactKeyValue } from "#src/keys/key-value.ts";
import { createServiceSecrets } from "#src/keys/service-secrets.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";

export const filled = { keys: 10_000, events: 300_000, keysOfYear: 50 };

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** Returns the values of the keys of the team `busy`. */
export async function fillStore(dataDir: string, secret: Buffer): Promise<readonly string[]> {
  await openSqliteStores({ dataDir }).then((stores) => stores.close());
  const db = new DatabaseSync(join(dataDir, "keyrun.db"));
  db.exec("BEGIN");
  const nowMs = Date.now();
  for (const team of ["big", "busy", "used", "gone"]) {
    db.prepare(`INSERT INTO teams (id, display_name, plan, create_time_ms, version)
      VALUES (?, ?, 'enterprise', ?, 1)`).run(team, team, nowMs - 400 * dayMs);
  }
  const secrets = createServiceSecrets([secret]);
  const numbers = "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1)";
  const keys = (team: string, start: number, revokeMs: number | null) =>
    db
      .prepare(`INSERT INTO keys (id, team_id, label, redacted_value, digest, secret_version,
        create_time_ms, created_by, revoke_time_ms, revoked_by, version, label_folded)
        ${numbers} SELECT printf('%024d', ?2 + i), ?3, 'Label ' || i, 'svc_0000…0000', 'x', ?6, ?4 + i,
        'service', ?5, iif(?5 IS NULL, NULL, 'service'), 1, 'label ' || i FROM n`)
      .run(filled.keys, start, team, nowMs - 100 * dayMs, revokeMs, secrets.newestVersion);
  keys("big", 1_000_000, null);
  keys("big", 2_000_000, nowMs - dayMs);
  keys("gone", 3_000_000, nowMs - dayMs);
  const day = (ms: number) => Math.floor(ms / dayMs) * dayMs;
  const hours = (team: string, start: number, { keys, hours }: { keys: number; hours: number }) =>
    db
      .prepare(`INSERT INTO usage_hours ${numbers}, k (j) AS (SELECT 0 UNION ALL SELECT j + 1 FROM k
        WHERE j + 1 < ?2) SELECT ?3, ?4 + i * ${hourMs}, printf('%024d', ?5 + j), 'a', 9, 1, 1, 5 FROM n, k`)
      .run(hours, keys, team, day(nowMs) - hours * hourMs, start);
  const days = (team: string, start: number, { keys, days }: { keys: number; days: number }) =>
    db
      .prepare(`INSERT INTO usage_days ${numbers}, k (j) AS (SELECT 0 UNION ALL SELECT j + 1 FROM k
        WHERE j + 1 < ?2) SELECT ?3, ?4 + i * ${dayMs}, printf('%024d', ?5 + j), 9, 1, 1, 5 FROM n, k`)
      .run(days, keys, team, day(nowMs) - days * dayMs, start);
  hours("used", 1_000_000, { keys: filled.keysOfYear, hours: 34 * 24 });
  days("used", 1_000_000, { keys: filled.keysOfYear, days: 366 });
  hours("big", 1_000_000, { keys: filled.keys, hours: 24 });
  days("big", 1_000_000, { keys: filled.keys, days: 30 });
  db.prepare(`INSERT INTO audit_events (id, time_ms, actor, address, channel, action, team_id, target,
    request_id, outcome, reason, count) ${numbers} SELECT printf('event-%09d', i), ?2 + i * 1000,
    'service ' || (i % 3), '127.0.0.1', 'rpc', iif(i % 2, 'key.create', 'key.revoke'), 'big',
    printf('%024d', i), 'r', 'done', '', 1 FROM n`).run(filled.events, nowMs - 30 * dayMs);

  const form = createKeyForm("svc", secrets);
  const insert = db.prepare(`INSERT INTO keys (id, team_id, label, redacted_value, digest, secret_version,
    create_time_ms, created_by, version, label_folded) VALUES (?, 'busy', '', ?, ?, ?, ?, 'service', 1, '')`);
  const values = Array.from({ length: filled.keys }, () => {
    const { id, value } = form.mint(randomBytes);
    const digest = secrets.digestNewest(value).toString("base64url");
    insert.run(id, redactKeyValue(value), digest, secrets.newestVersion, nowMs - dayMs);
    return value;
  });
  db.exec("COMMIT");
  db.close();
  return values;
}
