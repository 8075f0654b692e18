import { afterAll, expect, test } from "vitest";
import { logOutputBounds } from "#src/log-output.ts";
import { eventually, whileAnswer } from "../harness/eventually.ts";
import { isOverloaded, keyrunCommand, restRunOnce, serveKeyrun } from "../harness/keyrun-process.ts";
import { createTempFolders } from "../harness/temp-folders.ts";
import { serveWithUnreadLog } from "../harness/unread-log.ts";

const folders = createTempFolders();
afterAll(folders.remove);

const settings = { KEYRUN_ACCESS_LOG: "true", KEYRUN_PLAN_LIMITS: "free=100000" };

async function newKey(dataDir: string): Promise<string> {
  const { stdout } = await keyrunCommand({ KEYRUN_DATA_DIR: dataDir }, ["keys", "create", "--team", "demo"]);
  return /svc_[0-9a-z]{24}\.[0-9A-Za-z]{49}/.exec(stdout)?.[0] ?? "";
}

test("the lines stand in the log, among its own, and the last ones are there at the end", async () => {
  const dataDir = folders.create();
  const keyrun = await serveKeyrun(dataDir, settings);
  const value = await newKey(dataDir);
  await Promise.all(Array.from({ length: 50 }, () => restRunOnce(keyrun.publicUrl, { value })));
  keyrun.kill("SIGTERM");
  expect(await keyrun.exited).toMatchObject({ code: 0 });
  const lines = keyrun
    .stderr()
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  const runs = lines.filter(({ route }) => route === "/api/apps/{app_id}/run");
  expect(runs).toHaveLength(50);
  expect(lines.map(({ msg }) => msg)).toContain("draining");
  expect(keyrun.stderr()).not.toContain(value.split(".")[1]);
});

/** More lines than the pipe and the queue have room for. */
const runsMax = Math.ceil((logOutputBounds.accessBytesMax + 64 * 1024) / 250) + 2_000;

test("a reader of the log that has stopped holds up no run, and every line that is lost is counted", async () => {
  const dataDir = folders.create();
  const keyrun = await serveWithUnreadLog(dataDir, settings);
  const { publicUrl } = keyrun;
  const value = await newKey(dataDir);

  let sent = 0;
  const send = async () => {
    while (sent < runsMax) {
      // One that is refused, as the machine made the event loop late, has a line, too.
      const { status } = await eventually(() => {
        sent += 1;
        return restRunOnce(publicUrl, { value });
      }, whileAnswer(isOverloaded));
      expect(status).toBe(200);
    }
  };
  await Promise.all(Array.from({ length: 16 }, send));

  keyrun.readLog();
  await restRunOnce(publicUrl, { value });
  keyrun.child.kill("SIGTERM");
  await keyrun.exited;
  const lines = keyrun.lines();
  const runs = lines.filter(({ route }) => route === "/api/apps/{app_id}/run").length;
  const dropped = lines.reduce((sum, line) => sum + (line.dropped ?? 0), 0);
  expect(dropped).toBeGreaterThan(0);
  // The command line's requests and the probes of the harness are no runs, and may be dropped too.
  expect(runs + dropped).toBeGreaterThanOrEqual(sent);
  expect(runs + dropped).toBeLessThanOrEqual(sent + 10);
});
