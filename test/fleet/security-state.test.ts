import { expect, test } from "vitest";
import { createSecurityState } from "#src/fleet/security-state.ts";

interface Thing {
  readonly name: string;
}

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
  const answer = changeSecurityState("app", () => written.promise);
  expect(raised).toEqual([]);
  written.resolve(change);
  expect(await answer).toBe(change);
  expect(raised).toEqual([["a", 3, { name: "A" }]]);
});

test("each changed record's floor rises", async () => {
  const { raised, changeSecurityState } = setUp();
  const ended = ["one", "two"].map((id) => ({ id, version: 2 }));
  expect(await changeSecurityState("session", async () => ended)).toBe(ended);
  expect(raised).toEqual([
    ["one", 2, undefined],
    ["two", 2, undefined],
  ]);
});

test("no floor rises where nothing was written, the write failed, or no cache holds the kind", async () => {
  const { raised, changeSecurityState } = setUp();
  expect(await changeSecurityState("app", async () => undefined)).toBeUndefined();
  const failure = new Error("the store is gone");
  await expect(changeSecurityState("app", () => Promise.reject(failure))).rejects.toBe(failure);
  expect(await changeSecurityState("member", async () => ({ id: "demo/ada" }))).toEqual({ id: "demo/ada" });
  expect(raised).toEqual([]);
});

test("the answer waits for a floor that takes time to rise, and fails where it can't", async () => {
  const risen = Promise.withResolvers<void>();
  const changeSecurityState = createSecurityState<{ app: Thing }>({
    floors: { app: { raise: () => risen.promise } },
  });
  let answered = false;
  const answer = changeSecurityState("app", async () => ({ id: "a", version: 1 })).then(() => {
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
  await changeSecurityState("app", async () => ({ id: "a" }));
  // @ts-expect-error The record is no app.
  await changeSecurityState("app", async () => ({ id: "a", version: 1, value: { title: "A" } }));
  // @ts-expect-error There is no such kind.
  await changeSecurityState("label", async () => ({ id: "a" }));
});
