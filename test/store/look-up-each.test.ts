import { expect, test } from "vitest";
import { createLookUpEach } from "#src/store/stores.ts";

test("a place that fails is asked again until it answers, and only then the next one", async () => {
  const asked: string[] = [];
  let bad: string | undefined;
  const find = async (id: string) => {
    asked.push(id);
    if (id === bad) throw new Error("this page is damaged");
    return undefined;
  };
  const lookUp = createLookUpEach({ keys: { find }, teams: { find }, apps: { find } } as never);
  await lookUp();
  bad = asked[0];
  const others = new Set<string>();
  for (let turn = 1; turn < 1_024; turn += 1) {
    await lookUp();
    others.add(asked.at(-1) ?? "");
  }
  expect(others.size).toBe(1_023);
  for (let turn = 0; turn < 3; turn += 1) await expect(lookUp()).rejects.toThrow("damaged");
  expect(asked.slice(-9).every((id) => id === bad)).toBe(true);
  bad = undefined;
  await lookUp();
  await lookUp();
  expect(asked.at(-1)).not.toBe(asked[0]);
});
