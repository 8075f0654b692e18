import { randomBytes } from "node:crypto";
import { readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { StartRefused } from "#src/refusal/start-refused.ts";
import { createSecretFiles, writePrivateFile } from "#src/settings/data-folder.ts";
import { tempFolders } from "../harness/closed-at-end.ts";

const folders = tempFolders();

test("the first file makes its folder, as with MongoDB no store has made it", async () => {
  const path = join(folders.create(), "a", "b", "grpc-address");
  await writePrivateFile(path, "127.0.0.1:8081\n");
  expect(readFileSync(path, "utf8")).toBe("127.0.0.1:8081\n");
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(statSync(join(path, "..")).mode & 0o777).toBe(0o700);
});

test("a folder that can't be written is refused in words that name the setting", async () => {
  const file = join(folders.create(), "file");
  await writePrivateFile(file, "");
  const refusal = await writePrivateFile(join(file, "grpc-address"), "x").catch((thrown: unknown) => thrown);
  expect(refusal).toBeInstanceOf(StartRefused);
  expect((refusal as Error).message).toMatch(/can't be written .*KEYRUN_DATA_DIR/);
});

test.each(["", "x".repeat(31), `${"x".repeat(31)} ä`])(
  "a file service-token that holds %j is refused without its text, and stays; without it a new one is made",
  async (text) => {
    const dataDir = folders.create();
    const path = join(dataDir, "service-token");
    writeFileSync(path, `${text}\n`);
    const files = createSecretFiles(dataDir, randomBytes);
    const refusal = await files.serviceToken().catch((thrown: unknown) => thrown);
    expect(refusal).toBeInstanceOf(StartRefused);
    const { message } = refusal as Error;
    expect(message).toMatch(
      /service-token must be 32 to 512 characters .+ remove the file, and Keyrun makes/,
    );
    if (text !== "") expect(message).not.toContain(text);
    expect(readFileSync(path, "utf8")).toBe(`${text}\n`);
    // The advice in the message works.
    rmSync(path);
    expect(await files.serviceToken()).toBe(readFileSync(path, "utf8").trim());
  },
);
