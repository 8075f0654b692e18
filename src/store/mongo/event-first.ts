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
 * function looks whether what this call asks for is so already: a repeat has no event.
 */
type Kinds<Port> = {
  readonly [Method in keyof Port]: "changes" | "reads" | "aside" | Look<Port, Port[Method]>;
};
/**
 * Returns what the call answers if it changes nothing; undefined if it changes something. The call
 * is then not made: another one could come in between, and it would change something after all.
 */
type Look<Port, Method> = Method extends (...given: infer Given) => Promise<infer Answer>
  ? (port: Port, ...given: Given) => Promise<{ readonly answer: Answer } | undefined>
  : never;

/** Every method of these ports. One that is added does not compile until it has a kind. */
const kinds: { readonly [Name in keyof ChangingPorts]: Kinds<ChangingPorts[Name]> } = {
  keys: {
    insert: "changes",
    async revoke(keys, { teamId, keyId }) {
      const key = await keys.find(keyId);
      if (key?.teamId !== teamId) return { answer: undefined };
      return key.revokeTimeMs === null ? undefined : { answer: key };
    },
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
    async revoke(tokens, { tokenId }) {
      const token = await tokens.find(tokenId);
      return token?.revokeTimeMs === null ? undefined : { answer: token };
    },
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
    async add(members, { teamId, email }) {
      const member = await members.find(teamId, email);
      return member && { answer: member };
    },
    remove: async (members, teamId, email) =>
      (await members.find(teamId, email)) ? undefined : { answer: false },
    removeAll: "changes",
    find: "reads",
    list: "reads",
    teamIdsOf: "reads",
  },
  preview: {
    set: async (preview, email, granted) =>
      (await preview.has(email)) === granted ? { answer: undefined } : undefined,
    has: "reads",
    list: "reads",
  },
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
    delete: async (sessions, idHash) => ((await sessions.find(idHash)) ? undefined : { answer: false }),
    // A request that is refused after it touched its session has changed nothing.
    touch: "aside",
    deleteExpired: "aside",
    find: "reads",
  },
  users: {
    async bind(users, { email, issuer, subject }) {
      const owner = await users.find(email);
      return owner?.issuer === issuer && owner.subject === subject ? { answer: true } : undefined;
    },
    release: async (users, email) => ((await users.find(email)) ? undefined : { answer: undefined }),
    find: "reads",
  },
};

/**
 * The same ports, which write the event of a change before they make it: MongoDB without
 * transactions can't write both at once. The event is unknown until the change has ended. `fresh`
 * reads what every acknowledged write has left, and nothing that a failover could take back: it
 * decides that there is nothing to write.
 */
export function writeEventsFirst<Ports extends ChangingPorts>(
  ports: Ports,
  { audit, fresh }: { readonly audit: Pick<AuditStore, "write">; readonly fresh: ChangingPorts },
): Ports {
  const begin = createBegin(audit);
  const port = <Name extends keyof ChangingPorts>(name: Name): ChangingPorts[Name] => {
    const changing = Object.entries(ports[name]).map(([method, work]: [string, unknown]) => {
      const kind: unknown = Reflect.get(kinds[name], method);
      const look = typeof kind === "function" ? kind : undefined;
      if (typeof work !== "function" || (kind !== "changes" && !look)) return [method, work];
      const later = async (...given: unknown[]): Promise<unknown> => {
        const event = pendingEvent();
        const same = event && look && (await Reflect.apply(look, undefined, [fresh[name], ...given]));
        if (same) return same.answer;
        if (event) await begin(event);
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
