// A process that writes keys until it is killed, and reports each acknowledged write on standard
// output. Arguments: the store (a folder or a MongoDB URI), the first number for names of keys, and
// for how many milliseconds a call of MongoDB may take.
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import type { Stores } from "#src/store/stores.ts";
import { openMongoForTest } from "../harness/open-mongo.ts";
import { keyRecordOf, newAppOf } from "../harness/store-records.ts";

const [place = "", firstNumber = "0", callMsMax = ""] = process.argv.slice(2);

await writeForEver(await open(), Number(firstNumber));

function open(): Promise<Stores> {
  return place.startsWith("mongodb")
    ? openMongoForTest({ uri: place, callMsMax: Number(callMsMax) })
    : openSqliteStores({ dataDir: place });
}

/** Revokes every third key and uses every fifth. Creates, changes and deletes an app in turn. */
async function writeForEver({ keys, apps }: Stores, firstNumber: number): Promise<never> {
  for (let n = firstNumber; ; n++) {
    const teamId = `team-${n % 4}`;
    const keyId = `key-${n}`;
    await keys.insert(keyRecordOf({ id: keyId, teamId, createTimeMs: n }), { activeMax: 1_000_000 });
    report("created", keyId);
    if (n % 5 === 0) {
      await keys.recordUses(new Map([[keyId, n]]));
      report("used", keyId);
    }
    if (n % 3 === 0) {
      await keys.revoke({ teamId, keyId, revokeTimeMs: n, revokedBy: "a service" });
      report("revoked", keyId);
    }
    const app =
      (await apps.insert(newAppOf({ id: "app" }))) ?? (await apps.update("app", { timeoutMs: 1 + n }));
    report("app", String(app?.version));
    if (n % 7 === 0) report("app", String(await apps.delete("app")));
  }
}

/** Writes to a pipe are synchronous, so a line written before the kill can still be read. */
function report(what: string, id: string): void {
  process.stdout.write(`${what} ${id}\n`);
}
