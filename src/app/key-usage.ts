import { deletedKeyVersion } from "../keys/key-life.ts";
import { createUsage, type Usage, type UsageParts } from "../usage/usage.ts";
import type { Membership } from "./membership.ts";

/** The usage of keys. It lets go of deleted keys, also of those that another instance deletes. */
export function createKeyUsage(parts: UsageParts, { listen }: Pick<Membership, "listen">): Usage {
  const usage = createUsage(parts);
  listen({
    apply(changes) {
      for (const { kind, id, version } of changes)
        if (kind === "key" && version === deletedKeyVersion) usage.keyDeleted(id);
    },
    // A missed deletion may leave a new team the end of an old team's run. It is not worth a read.
    missed() {},
  });
  return usage;
}
