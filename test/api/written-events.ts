import type { AuditEvent } from "#src/audit/audit-store.ts";
import type { Stores } from "#src/store/stores.ts";

/** The events that a Keyrun writes, in their order, also those that no list shows yet. */
export function writtenEvents() {
  const written: AuditEvent[] = [];
  const onStores = ({ audit, ...stores }: Stores): Stores => ({
    ...stores,
    audit: {
      ...audit,
      write: (events) => {
        written.push(...events);
        return audit.write(events);
      },
    },
  });
  return { written, onStores };
}
