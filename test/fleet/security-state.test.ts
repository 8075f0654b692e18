import { describe, expect, test } from "vitest";
import { createSecurityState, raiseFloors } from "#src/fleet/security-state.ts";

interface Thing {
  readonly name: string;
}

/** What was written is the change. */
const itself = <Change>(written: Change) => written;

function setUp() {
  const raised: unknown[][] = [];
  const floor = { raise: (...change: unknown[]) => void raised.push(change) };
  const changeSecurityState = createSecurityState<{ app: Thing; session: Thing }>({
    floors: { app: floor, session: floor },
  });
  return { raised, changeSecurityState };
}

test("the floor rises after the write and before the answer, and the answer is the write's", async () => {
  const { raised, changeSecurityState } = setUp();
  const change = { id: "a", version: 3, value: { name: "A" }, more: true };
  const written = Promise.withResolvers<typeof change>();
  const answer = changeSecurityState("app", () => written.promise, itself);
  expect(raised).toEqual([]);
  written.resolve(change);
  expect(await answer).toBe(change);
  expect(raised).toEqual([["a", 3, { name: "A" }]]);
});

test("each changed record's floor rises", async () => {
  const { raised, changeSecurityState } = setUp();
  const ended = ["one", "two"].map((id) => ({ id, version: 2 }));
  expect(await changeSecurityState("session", async () => ended, itself)).toBe(ended);
  expect(raised).toEqual([
    ["one", 2, undefined],
    ["two", 2, undefined],
  ]);
});

test("no floor rises where nothing was written, the write failed, or no cache holds the kind", async () => {
  const { raised, changeSecurityState } = setUp();
  expect(
    await changeSecurityState(
      "app",
      async () => "nothing",
      () => undefined,
    ),
  ).toBe("nothing");
  const failure = new Error("the store is gone");
  await expect(
    changeSecurityState("app", () => Promise.reject(failure), { id: "a", version: 2 }),
  ).rejects.toBe(failure);
  expect(await changeSecurityState("member", async () => "removed", { id: "demo/ada" })).toBe("removed");
  expect(raised).toEqual([]);
});

test("the answer waits for a floor that takes time to rise, and fails where it can't", async () => {
  const risen = Promise.withResolvers<void>();
  const changeSecurityState = createSecurityState<{ app: Thing }>({
    floors: { app: { raise: () => risen.promise } },
  });
  let answered = false;
  const answer = changeSecurityState("app", async () => ({ id: "a", version: 1 }), itself).then(() => {
    answered = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  expect(answered).toBe(false);
  risen.reject(new Error("an instance did not answer"));
  await expect(answer).rejects.toThrow("did not answer");
});

test("a change without its version, or with another kind's record, does not compile", async () => {
  const { changeSecurityState } = setUp();
  // @ts-expect-error A cache holds apps, so their floor needs a version.
  await changeSecurityState("app", async () => ({ id: "a" }), itself);
  // @ts-expect-error The record is no app.
  await changeSecurityState("app", async () => ({ id: "a", version: 1, value: { title: "A" } }), itself);
  // @ts-expect-error There is no such kind.
  await changeSecurityState("label", async () => ({ id: "a" }), itself);
});

describe("in a fleet", () => {
  /** A fleet whose announcements the test ends. */
  function setUpFleet() {
    const raised: unknown[][] = [];
    const announced: unknown[][] = [];
    const passed = Promise.withResolvers<void>();
    const changeSecurityState = createSecurityState<{ app: Thing }>({
      floors: { app: { raise: (...change: unknown[]) => void raised.push(change) } },
      fleet: {
        announce(changes, { wait }) {
          announced.push([wait, ...changes], [...raised]);
          return wait ? passed.promise : Promise.resolve();
        },
      },
    });
    return { raised, announced, passed, changeSecurityState };
  }

  test("a change that takes a right away is answered once the fleet knows of it, own floors first", async () => {
    const { announced, passed, changeSecurityState } = setUpFleet();
    let answered = false;
    const answer = changeSecurityState(
      "app",
      async () => ({ id: "a", version: 3, value: { name: "A" } }),
      itself,
    );
    const done = answer.then(() => {
      answered = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    const own = [["a", 3, undefined]];
    expect(announced).toEqual([[true, { kind: "app", id: "a", version: 3 }], own]);
    expect(answered).toBe(false);
    passed.reject(new Error("the store is gone"));
    await expect(done).rejects.toThrow("the store is gone");
  });

  test("a change that only grants is told and not waited for, even beside one that takes away", async () => {
    const { announced, passed, changeSecurityState } = setUpFleet();
    const created = { id: "b", version: 1, grants: true, teamId: "demo" };
    expect(await changeSecurityState("app", async () => created, itself)).toBe(created);
    const told = [false, { kind: "app", id: "b", version: 1, teamId: "demo" }];
    expect(announced[0]).toEqual(told);
    const both = changeSecurityState("app", async () => [created, { id: "a", version: 2 }], itself);
    await new Promise((resolve) => setImmediate(resolve));
    expect([announced[2], announced[4]]).toEqual([told, [true, { kind: "app", id: "a", version: 2 }]]);
    passed.resolve();
    await both;
  });

  test("a change that no other instance decides by raises the own floor only", async () => {
    const { raised, announced, changeSecurityState } = setUpFleet();
    await changeSecurityState("app", async () => ({ id: "a", version: 1, localOnly: true }), itself);
    expect(raised).toEqual([["a", 1, undefined]]);
    expect(announced).toEqual([]);
  });

  test("nothing is told of a failed write, of no change, and of a kind that no cache holds", async () => {
    const { announced, changeSecurityState } = setUpFleet();
    const failure = new Error("the store is gone");
    await expect(
      changeSecurityState("app", () => Promise.reject(failure), { id: "a", version: 2 }),
    ).rejects.toBe(failure);
    await changeSecurityState("app", async () => undefined, itself);
    await changeSecurityState("app", async () => [], itself);
    await changeSecurityState("member", async () => ({ id: "demo/ada" }), itself);
    expect(announced).toEqual([]);
  });
});

test("changes of other instances raise the floors of their kinds, and those without a floor are passed over", () => {
  const raised: unknown[][] = [];
  const floors = { app: { raise: (...change: unknown[]) => void raised.push(change) } };
  raiseFloors(floors, [
    { kind: "app", id: "a", version: 2 },
    { kind: "member", id: "demo/ada", version: 1 },
    { kind: "app", id: "b", version: 7 },
  ]);
  expect(raised).toEqual([
    ["a", 2],
    ["b", 7],
  ]);
});
