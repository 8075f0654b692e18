import { randomUUID } from "node:crypto";
import { onTestFinished } from "vitest";
import { serviceTokenMark } from "#src/fleet/who-may-join.ts";
import { connectMongo } from "#src/store/mongo/connection.ts";
import { createControlStore } from "#src/store/mongo/control-store.ts";
import { collectionsOf } from "#src/store/mongo/documents.ts";
import { createStoreCall } from "#src/store/mongo/store-call.ts";
import { instanceFactsOf } from "./instance-facts.ts";
import type { Keyrun } from "./keyrun.ts";

/**
 * Registers an instance of this schema in the fleet of `one`, as an older Keyrun would do it. It
 * leaves by `leave`, or with the test.
 */
export async function registerOlderInstance(one: Keyrun, { schema }: { readonly schema: number }) {
  const { client, db } = await connectMongo(one.config.mongodbUri ?? "", {
    selectionMsMax: 20_000,
    socketMsMax: 20_000,
  });
  onTestFinished(() => client.close());
  const control = createControlStore(collectionsOf(db), { call: createStoreCall(20_000), readOptions: {} });
  const [lease] = (await control.read()).leases;
  const { secretVersions } = lease?.facts ?? { secretVersions: [] };
  const mark = serviceTokenMark(one.serviceToken);
  const facts = instanceFactsOf({ schema, secretVersions, serviceTokenMark: mark, address: null });
  const older = randomUUID();
  await control.register(older, facts);
  // Else the others take it for dead, which a busy machine may see before the test has ended.
  const beat = async () => control.beat(older, { ack: (await control.read()).seq, nSeen: 0 });
  const beating = setInterval(() => void beat().catch(() => {}), 1_000);
  const leave = async () => {
    clearInterval(beating);
    await control.remove(older);
  };
  onTestFinished(leave);
  return { leave };
}
