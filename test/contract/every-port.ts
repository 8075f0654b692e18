import { describe } from "vitest";
import type { Stores } from "#src/store/stores.ts";
import { appStoreContract } from "./app-store.ts";
import { auditStoreContract } from "./audit-store.ts";
import { changingMethodsContract } from "./changing-methods.ts";
import { keyLifeContract } from "./key-life.ts";
import { keyRotationContract } from "./key-rotation.ts";
import { keySearchContract } from "./key-search.ts";
import { keyStoreContract } from "./key-store.ts";
import { memberStoreContract } from "./member-store.ts";
import { type OpenStores, openedStores } from "./opened-stores.ts";
import { previewStoreContract } from "./preview-store.ts";
import { quotaStoreContract } from "./quota-store.ts";
import { runStoreContract } from "./run-store.ts";
import { serviceTokenStoreContract } from "./service-token-store.ts";
import { sessionStoreContract } from "./session-store.ts";
import { storesContract } from "./stores.ts";
import { teamStoreContract } from "./team-store.ts";
import { usageStoreContract } from "./usage-store.ts";
import { userStoreContract } from "./user-store.ts";

/**
 * The suites of every port. `open` opens an empty store; `reopen` opens the same one again after it
 * was closed.
 */
export function everyPortContract(
  name: string,
  open: OpenStores,
  reopen: (closed: Stores) => Promise<Stores>,
): void {
  keyStoreContract(name, open);
  keyLifeContract(name, open);
  keyRotationContract(name, open);
  keySearchContract(name, open);
  teamStoreContract(name, open);
  memberStoreContract(name, open);
  previewStoreContract(name, open);
  appStoreContract(name, open);
  sessionStoreContract(name, open);
  serviceTokenStoreContract(name, open);
  userStoreContract(name, open);
  runStoreContract(name, open);
  usageStoreContract(name, open);
  quotaStoreContract(name, open);
  auditStoreContract(name, open);
  describe(`the events of changes on ${name}`, () => {
    const { stores } = openedStores(open);
    changingMethodsContract(stores);
  });
  storesContract(name, open, reopen);
}
