import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { expect, test } from "vitest";
import { KeyState } from "#gen/keyrun/v1/key_pb.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { startKeyrun } from "../harness/keyrun.ts";

/** What happens between the write of a rotation and its answer. */
let onRotated: () => Promise<void> = async () => {};
/** What a deletion of a team waits for before it counts the team's keys. */
let beforeCount: () => Promise<void> = async () => {};

const keyrun = closedAtEnd(
  await startKeyrun({
    onStores: (stores) => ({
      ...stores,
      keys: {
        ...stores.keys,
        async rotate(order) {
          const outcome = await stores.keys.rotate(order);
          await onRotated();
          return outcome;
        },
        async countActive(teamId) {
          await beforeCount();
          return stores.keys.countActive(teamId);
        },
      },
    }),
  }),
);

test.each([
  ["at once", 0, "before"],
  ["in an hour", 3_600_000, "before"],
  ["at once", 0, "after"],
] as const)(
  "a rotation that ends the old key %s gives a key that works, though the team's deletion began in the middle (%i ms, it counts %s the answer)",
  async (_, overlapMs, counts) => {
    const teamId = await keyrun.newTeam();
    const old = await keyrun.newKey(teamId);
    const [marked, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let deletion: Promise<unknown> = Promise.resolve();
    beforeCount = async () => {
      marked.resolve();
      if (counts === "after") await answered.promise;
    };
    onRotated = async () => {
      deletion = keyrun.teams.deleteTeam({ teamId }).catch((thrown: unknown) => thrown);
      await marked.promise;
    };
    const rotated = await keyrun.keys.rotateKey({
      teamId,
      keyId: old.id,
      overlap: durationFromMs(overlapMs),
    });
    answered.resolve();
    expect(String(await deletion)).toMatch(/active key/);
    const { keys } = await keyrun.keys.listKeys({ teamId, showRevoked: true });
    const states = new Map(keys.map(({ id, state }) => [id, state]));
    expect(states.get(rotated.key?.id ?? "")).toBe(KeyState.ACTIVE);
    expect(states.get(old.id)).toBe(overlapMs === 0 ? KeyState.REVOKED : KeyState.ACTIVE);
  },
);
