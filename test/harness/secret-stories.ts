import { writeFileSync } from "node:fs";
import { expect } from "vitest";
import { spawnKeyrun } from "./keyrun-process.ts";
import type { SecretPlace } from "./secret-places.ts";

/** Keys made before and after a rotation work, and none without its secret. Starts four servers. */
export async function rotationStory(place: SecretPlace): Promise<void> {
  const { command, newKey, start } = place;
  const first = await start();
  // With MongoDB there is no team yet.
  if (place.settings.KEYRUN_MONGODB_URI) await command("teams", "create", "demo");
  const before = await newKey();
  const [oldSecret = ""] = place.held();
  const rotated = await command("secrets", "rotate");
  expect(rotated).toMatchObject({ code: 0, stderr: expect.stringContaining("restart Keyrun") });
  const [, newest, old] = /version (\w{8}), before version (\w{8})\.\n$/.exec(rotated.stdout) ?? [];
  expect(newest).not.toBe(old);
  // The running server still knows the old secret alone.
  const between = await newKey();
  expect(await first.statusOf(between)).toBe(200);
  await first.stop();

  const second = await start();
  const after = await newKey();
  for (const value of [before, between, after]) expect(await second.statusOf(value)).toBe(200);
  await second.stop();

  // The first secret of the list made the last key, and the second one those before.
  const [newSecret = "", kept = ""] = place.held();
  expect(kept).toBe(oldSecret);
  for (const [secret, missing] of [
    [newSecret, old],
    [oldSecret, newest],
  ] as const) {
    writeFileSync(place.secretFile, `${secret}\n`);
    const refused = spawnKeyrun(place.settings);
    expect(await refused.exited).toMatchObject({ code: 1 });
    expect(refused.stderr()).toContain(`(version ${missing}). Add it, after the others, to `);
    const named = place.settings.KEYRUN_SECRET_FILE ? "KEYRUN_SECRET_FILE" : place.secretFile;
    expect(refused.stderr()).toContain(named);
  }
}

/** The secret that a running Keyrun makes keys with is not dropped. Starts two servers. */
export async function dropStory(place: SecretPlace) {
  const { command, held, start } = place;
  // The running server knows the old secret alone, and no key needs that yet.
  const first = await start();
  expect(await command("secrets", "rotate")).toMatchObject({ code: 0 });
  const [newest] = held();
  await refusedToDrop(place, /may still make keys with version \w{8}\. Stop it first/);
  await first.stop();

  expect(await command("secrets", "drop")).toMatchObject({
    code: 0,
    stderr: expect.stringContaining("Start Keyrun again"),
  });
  expect(held()).toEqual([newest]);
  await (await start()).stop();
}

export async function refusedToDrop(
  { command, held }: SecretPlace,
  words: RegExp,
  ...version: string[]
): Promise<void> {
  const before = held();
  const { code, stderr } = await command("secrets", "drop", ...version);
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(words) });
  expect(held()).toEqual(before);
  for (const text of before) expect(stderr).not.toContain(text);
}
