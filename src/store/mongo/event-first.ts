import type { AuditEvent, AuditStore, PendingEvent } from "../../audit/audit-store.ts";
import { pendingEvent } from "../change-under-way.ts";
import type { Stores } from "../stores.ts";

/** The ports whose changes the audit log writes down. */
type ChangingPorts = Pick<
  Stores,
  "keys" | "serviceTokens" | "teams" | "members" | "preview" | "apps" | "sessions" | "users"
>;

/**
 * Whether a method changes what an event may tell. Bookkeeping that no event tells changes not. A
 * function looks whether this call would change anything.
 */
type Kinds<Port> = {
  readonly [Method in keyof Port]: "changes" | "reads" | "aside" | Looks<Port, Port[Method]>;
};
type Looks<Port, Method> = Method extends (...given: infer Given) => unknown
  ? (port: Port, ...given: Given) => Promise<boolean>
  : never;

/** Every method of these ports. One that is added does not compile until it has a kind. */
const kinds: { readonly [Name in keyof ChangingPorts]: Kinds<ChangingPorts[Name]> } = {
  keys: {
    insert: "changes",
    // A revocation is for ever, so a repeat changes nothing.
    revoke: async (keys, { keyId }) => (await keys.find(keyId))?.revokeTimeMs === null,
    update: "changes",
    rotate: "changes",
    delete: "changes",
    deleteAll: "changes",
    recordUses: "aside",
    // The event of an expiry is written before it by itself.
    markExpired: "aside",
    settlePending: "aside",
    find: "reads",
    list: "reads",
    placeOf: "reads",
    countActive: "reads",
    countExpiring: "reads",
    countRevoked: "reads",
    secretVersions: "reads",
  },
  serviceTokens: {
    insert: "changes",
    revoke: async (tokens, { tokenId }) => (await tokens.find(tokenId))?.revokeTimeMs === null,
    delete: "changes",
    leaveTeam: "changes",
    recordUses: "aside",
    find: "reads",
    list: "reads",
    secretVersions: "reads",
  },
  teams: {
    insert: "changes",
    update: "changes",
    delete: "changes",
    find: "reads",
    list: "reads",
    deletedVersion: "reads",
  },
  members: {
    add: "changes",
    remove: "changes",
    removeAll: "changes",
    has: "reads",
    list: "reads",
    teamIdsOf: "reads",
  },
  preview: { set: "changes", has: "reads", list: "reads" },
  apps: {
    insert: "changes",
    update: "changes",
    delete: "changes",
    find: "reads",
    list: "reads",
    limitedTo: "reads",
    deletedVersion: "reads",
  },
  sessions: {
    insert: "changes",
    delete: "changes",
    // A request that is refused after it touched its session has changed nothing.
    touch: "aside",
    deleteExpired: "aside",
    find: "reads",
  },
  users: { bind: "changes", release: "changes", isBound: "reads" },
};

/**
 * The same ports, which write the event of a change before they make it: MongoDB without
 * transactions can't write both at once. The event is unknown until the change has ended.
 */
export function writeEventsFirst<Ports extends ChangingPorts>(
  ports: Ports,
  audit: Pick<AuditStore, "write">,
): Ports {
  const begin = createBegin(audit);
  const port = <Name extends keyof ChangingPorts>(name: Name): ChangingPorts[Name] => {
    const changing = Object.entries(ports[name]).map(([method, work]: [string, unknown]) => {
      const kind: unknown = Reflect.get(kinds[name], method);
      const looks = typeof kind === "function" ? kind : undefined;
      if (typeof work !== "function" || (kind !== "changes" && !looks)) return [method, work];
      const later = async (...given: unknown[]): Promise<unknown> => {
        const event = pendingEvent();
        const changes = event && (!looks || (await Reflect.apply(looks, undefined, [ports[name], ...given])));
        if (changes) await begin(event);
        return Reflect.apply(work, ports[name], given);
      };
      return [method, later];
    });
    // The methods are those of the port, with the same arguments and results.
    return Object.fromEntries(changing) as ChangingPorts[Name];
  };
  return {
    ...ports,
    keys: port("keys"),
    serviceTokens: port("serviceTokens"),
    teams: port("teams"),
    members: port("members"),
    preview: port("preview"),
    apps: port("apps"),
    sessions: port("sessions"),
    users: port("users"),
  };
}

/** Writes the event once, also where several changes begin at the same time. */
function createBegin(audit: Pick<AuditStore, "write">): (event: PendingEvent) => Promise<void> {
  const beginning = new WeakMap<PendingEvent, Promise<void>>();
  async function write(event: PendingEvent): Promise<void> {
    const outcome: AuditEvent["outcome"] = "unknown";
    try {
      await audit.write([{ ...event.record(), outcome }]);
      event.written(outcome);
    } finally {
      beginning.delete(event);
    }
  }
  return (event) => {
    const begun = beginning.get(event) ?? write(event);
    beginning.set(event, begun);
    return begun;
  };
}
