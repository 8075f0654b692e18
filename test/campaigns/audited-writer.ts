// A process that creates and revokes keys through the audit log until it is killed. It writes a
// line for each change that was acknowledged. Arguments: the store (a folder or a MongoDB URI),
// and the number of this life, which the names of its keys begin with.
import { randomBytes } from "node:crypto";
import { createAuditLog, createEventIds } from "#src/audit/audit-log.ts";
import { systemClock } from "#src/base/clock.ts";
import { createLog } from "#src/log/log.ts";
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import { openMongoForTest } from "../harness/open-mongo.ts";
import { keyRecordOf } from "../harness/store-records.ts";

const [place = "", life = "0"] = process.argv.slice(2);
const writers = 4;

// One of a fleet need not wait until the one before, which was killed, has lapsed.
const stores = place.startsWith("mongodb")
  ? await openMongoForTest({ uri: place, fleet: true })
  : await openSqliteStores({ dataDir: place });
const audit = createAuditLog({
  clock: systemClock,
  log: createLog({ level: "silent", destination: { write: () => {} } }),
  store: stores.audit,
  newId: createEventIds(randomBytes),
  keptDays: 400,
});

await Promise.all(Array.from({ length: writers }, (_, writer) => writeForEver(writer)));

/** A writer has the same team in every life, so that few teams have to be looked through. */
async function writeForEver(writer: number): Promise<never> {
  const teamId = `team-${writer}`;
  for (let n = 0; ; n++) {
    const keyId = `${life}-${writer}-${n}`;
    const facts = (action: string) => ({
      ...({ actor: "ada@example.com", address: "", channel: "rpc", action } as const),
      ...{ teamId, target: keyId, detail: "", requestId: "" },
    });
    await audit.during(facts("key.create"), async () => {
      await stores.keys.insert(keyRecordOf({ id: keyId, teamId, createTimeMs: n }), { activeMax: 1_000 });
    });
    report(`created ${keyId}`);
    await audit.during(facts("key.revoke"), async () => {
      await stores.keys.revoke({ teamId, keyId, revokeTimeMs: n, revokedBy: "ada@example.com" });
    });
    report(`revoked ${keyId}`);
  }
}

/** Writes to a pipe are synchronous, so a line written before the kill can still be read. */
function report(line: string): void {
  process.stdout.write(`${line}\n`);
}
