import { expect, test } from "vitest";
import type { PendingEvent } from "#src/audit/audit-store.ts";
import { whileChanging } from "#src/audit/pending-change.ts";
import type { Stores } from "#src/store/stores.ts";

/** The ports whose changes the audit log writes down. A new port is one of them, or named here. */
export type ChangingPorts = Omit<
  Stores,
  "window" | "runs" | "usage" | "audit" | "guard" | "fleet" | "check" | "isEmpty" | "close"
>;

/**
 * Whether a method changes what an event may tell. Bookkeeping, of which no event tells, is done
 * aside. A method that is added does not compile until it has a kind.
 */
const kinds: {
  readonly [Name in keyof ChangingPorts]: {
    readonly [Method in keyof ChangingPorts[Name]]: "changes" | "reads" | "aside";
  };
} = {
  keys: {
    insert: "changes",
    revoke: "changes",
    update: "changes",
    rotate: "changes",
    delete: "changes",
    deleteAll: "changes",
    recordUses: "aside",
    // The event of an expiry, or of a key that is settled, is written before it by its caller.
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
    revoke: "changes",
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
    find: "reads",
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
    touch: "aside",
    deleteExpired: "aside",
    find: "reads",
  },
  quotas: {
    grant: "changes",
    change: "aside",
    deleteBefore: "aside",
    deleteOfTeam: "aside",
    find: "reads",
  },
  users: { bind: "changes", release: "changes", find: "reads" },
};

/** A look at whether an e-mail is bound so already may come before the event. */
const someone = { email: "ada@example.com", issuer: "https://id.example", subject: "ada" };

/**
 * Of a change under way, every method that changes something takes the event before it does
 * anything else, and no other method takes it.
 */
export function changingMethodsContract(ports: () => ChangingPorts): void {
  const methods = Object.entries(kinds).flatMap(([port, ofPort]) =>
    Object.entries(ofPort).map(([method, kind]) => [port, method, kind] as const),
  );

  test.each(methods)(
    "%s.%s %s: it takes the event first if it changes something, and else not at all",
    async (port, method, kind) => {
      const work: unknown = Reflect.get(Reflect.get(ports(), port), method);
      if (typeof work !== "function") throw new Error("the port has no such method");
      let taken = 0;
      const event: PendingEvent = {
        get isDue(): boolean {
          taken += 1;
          throw new Error("the event was taken");
        },
        record: () => expect.fail("the event was written"),
        written() {},
      };
      // What most methods make no sense of, and a change need not: it ends before it is read.
      const calling = whileChanging(event, async () => Reflect.apply(work, ports(), [someone, {}]));
      const outcome = await calling.then(() => "done", String);
      if (kind === "changes") expect(outcome).toBe("Error: the event was taken");
      expect(taken).toBe(kind === "changes" ? 1 : 0);
    },
  );

  test("every method of these ports has a kind", () => {
    for (const [port, ofPort] of Object.entries(kinds)) {
      expect(Object.keys(Reflect.get(ports(), port)).sort()).toEqual(Object.keys(ofPort).sort());
    }
  });
}
