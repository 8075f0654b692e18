// A process that writes keys without end and tells on its standard output what was acknowledged, to be killed.
// Arguments: where the store is (a folder, or a MongoDB URI), and the first number for the keys' names.
import { openSqliteStores } from "#src/store/sqlite/open-stores.ts";
import type { Stores } from "#src/store/stores.ts";
import { openMongoForTest } from "./open-mongo.ts";
import { keyRecordOf, newAppOf } from "./store-records.ts";

const [place = "", firstNumber = "0"] = process.argv.slice(2);

await writeForEver(await open(), Number(firstNumber));

function open(): Promise<Stores> {
  return place.startsWith("mongodb")
    ? openMongoForTest({ uri: place, callMsMax: 2_000 })
    : openSqliteStores({ dataDir: place });
}

/** Every third key is revoked and every fifth used; an app is made, changed and deleted in turn. */
async function writeForEver({ keys, apps }: Stores, firstNumber: number): Promise<never> {
  for (let n = firstNumber; ; n++) {
    const teamId = `team-${n % 4}`;
    const keyId = `key-${n}`;
    await keys.insert(keyRecordOf({ id: keyId, teamId, createTimeMs: n }), { activeMax: 1_000_000 });
    tell("created", keyId);
    if (n % 5 === 0) {
      await keys.recordUses(new Map([[keyId, n]]));
      tell("used", keyId);
    }
    if (n % 3 === 0) {
      await keys.revoke({ teamId, keyId, revokeTimeMs: n, revokedBy: "a service" });
      tell("revoked", keyId);
    }
    const app =
      (await apps.insert(newAppOf({ id: "app" }))) ?? (await apps.update("app", { timeoutMs: 1 + n }));
    tell("app", String(app?.version));
    if (n % 7 === 0) tell("app", String(await apps.delete("app")));
  }
}

/** Writes to a pipe are synchronous, so a line that was told before the kill is there to read. */
function tell(what: string, id: string): void {
  process.stdout.write(`${what} ${id}\n`);
}
