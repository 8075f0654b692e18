import { execFileSync } from "node:child_process";
import { readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { tempFolders } from "../harness/closed-at-end.ts";
import {
  repository,
  type ServingKeyrun,
  type Settings,
  servedCommand,
  servedRun,
  serveKeyrun,
} from "../harness/keyrun-process.ts";
import { createMongoDatabases } from "../harness/mongo-databases.ts";
import { describeWith, mongodbMissing } from "../harness/needs.ts";

const folders = tempFolders();

async function start(settings: Settings, command?: readonly string[]) {
  const dataDir = settings.KEYRUN_DATA_DIR ?? "";
  const keyrun = await serveKeyrun(dataDir, settings, command);
  onTestFinished(() => keyrun.kill("SIGKILL"));
  return keyrun;
}

async function stop(keyrun: ServingKeyrun): Promise<void> {
  keyrun.kill("SIGTERM");
  expect(await keyrun.exited).toEqual({ code: 0, signal: null });
}

/** Runs a command against the server, and returns what it prints. */
function commandsOf(keyrun: ServingKeyrun, settings: Settings) {
  const port = { KEYRUN_GRPC_PORT: new URL(keyrun.internalUrl).port };
  return async (words: string) => {
    const { code, stdout, stderr } = await servedCommand({ ...settings, ...port }, words.split(" "));
    expect(code, stderr).toBe(0);
    return stdout.trim();
  };
}

async function runOnce({ publicUrl }: ServingKeyrun, value: string) {
  const answer = await fetch(`${publicUrl}/api/apps/echo/run`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${value}`,
      "content-type": "application/json",
      "idempotency-key": "order-1",
    },
    body: JSON.stringify({ text: "once" }),
  });
  const { runId }: { runId: string } = JSON.parse(await answer.text());
  return { status: answer.status, runId, replayed: answer.headers.get("idempotency-replayed") };
}

/**
 * Puts the Keyrun of the newest release into the folder, from the history of this clone, and returns
 * the command that serves with it.
 */
function unpackRelease(folder: string): readonly string[] {
  const commit = readFileSync(join(repository, "proto/BASELINE"), "utf8").trim();
  const git = (...words: string[]) =>
    execFileSync("git", words, { cwd: repository, maxBuffer: 64 * 1024 * 1024 });
  const inCommit = git("ls-tree", "--name-only", commit).toString().split("\n");
  const parts = inCommit.filter((name) => /^(src|gen|packages|package\.json)$/.test(name));
  const archive = git("archive", commit, ...parts);
  execFileSync("tar", ["-x", "-C", folder], { input: archive });
  symlinkSync(join(repository, "node_modules"), join(folder, "node_modules"));
  return [process.execPath, join(folder, "src/main.ts"), "serve"];
}

/** What an older Keyrun does not show of a key that has none of it. */
const laterFields = { replacesKeyId: "", replacedByKeyId: "", appIds: [] };

/** What an app made by an older Keyrun has from now on, as one made today without a word of it. */
const laterAppFields = { backgroundTimeout: "600s" };

/** What the command line shows, but for the last use of keys, which the runs of the test change. */
async function everything(command: ReturnType<typeof commandsOf>) {
  const parsed = async (words: string) => JSON.parse(await command(`${words} --json`));
  const { keys } = await parsed("keys list --team acme --revoked");
  const { apps } = await parsed("apps list");
  return {
    keys: keys.map(({ lastUseTime, ...key }: Record<string, unknown>) => ({ ...laterFields, ...key })),
    teams: await parsed("teams list"),
    members: await parsed("members list acme"),
    preview: await parsed("preview list"),
    apps: apps.map((app: Record<string, unknown>) => ({ ...laterAppFields, ...app })),
  };
}

async function upgrade(settings: Settings): Promise<void> {
  const old = await start(settings, unpackRelease(folders.create()));
  const before = commandsOf(old, settings);
  await before("teams create acme --plan pro");
  await before("members add acme ada@example.com");
  await before("preview grant ada@example.com");
  await before("apps create words --backend http --url http://127.0.0.1:9/ --team acme");
  const kept = await before("keys create --team acme --label kept");
  const revoked = await before("keys create --team acme");
  await before(`keys revoke --team acme ${revoked.split(".")[0]}`);
  const first = await runOnce(old, kept);
  expect(first.status).toBe(200);
  const expected = await everything(before);
  await stop(old);

  const upgraded = await start(settings);
  expect(await everything(commandsOf(upgraded, settings))).toEqual(expected);
  expect((await servedRun(upgraded.publicUrl, { value: kept })).status).toBe(200);
  expect(await runOnce(upgraded, kept)).toEqual({ ...first, replayed: "true" });
  const refused = await servedRun(upgraded.publicUrl, { value: revoked });
  expect(refused).toMatchObject({ status: 401, body: expect.stringContaining("revoked_api_key") });
  const after = commandsOf(upgraded, settings);
  const ending = await after("keys create --team acme --expires 90d");
  const rotated = await after(`keys rotate --team acme ${kept.split(".")[0]} --overlap 1h`);
  for (const value of [kept, ending, rotated]) {
    expect((await servedRun(upgraded.publicUrl, { value })).status).toBe(200);
  }
  await stop(upgraded);
}

const longer = { timeout: 300_000 };

test("a data folder of the newest release is taken over with all that is in it", longer, () =>
  upgrade({ KEYRUN_DATA_DIR: folders.create() }),
);

describeWith(mongodbMissing)("with a MongoDB server", () => {
  const databases = createMongoDatabases();
  afterAll(() => databases.drop());

  test("a database of the newest release is taken over with all that is in it", longer, () =>
    upgrade({
      KEYRUN_DATA_DIR: folders.create(),
      KEYRUN_MONGODB_URI: databases.createUri(),
      KEYRUN_SECRET: "ab".repeat(32),
    }),
  );
});
