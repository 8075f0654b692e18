import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { listEvents } from "#src/cli/audit-list.ts";
import type { Terminal } from "#src/cli/terminal.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { repository, spawnKeyrun } from "../harness/keyrun-process.ts";

test("--follow shows an event once, and again when it is known what became of it", async () => {
  const begun = { id: "a", action: "key.revoke", outcome: "AUDIT_OUTCOME_UNKNOWN" };
  const ended = { ...begun, outcome: "AUDIT_OUTCOME_DONE" };
  const answers = [[begun], [begun], [ended], [ended]];
  const lines: string[] = [];
  const audit = {
    listEvents: async () => {
      const events = answers.shift();
      if (!events) throw new Error("the test is over");
      return { events };
    },
  };
  const server = async () => ({ audit }) as unknown as Awaited<ReturnType<Terminal["server"]>>;
  const terminal = { server, print: (line: string) => void lines.push(line) } as unknown as Terminal;
  await expect(listEvents(terminal, { follow: true })).rejects.toThrow("over");
  expect(lines).toHaveLength(2);
  expect(lines[0]).toContain("unknown");
  expect(lines[1]).toContain("done");
});

test("--follow shows the events of a real server as they come, each on a line, until Ctrl-C", async () => {
  const keyrun = await startKeyrun();
  onTestFinished(() => keyrun.close());
  const { id: before } = await keyrun.newKey("demo");
  const command = [process.execPath, join(repository, "bin/keyrun.mjs"), "audit", "--follow"];
  const following = spawnKeyrun({ KEYRUN_DATA_DIR: keyrun.config.dataDir }, command);
  onTestFinished(() => following.kill("SIGKILL"));
  await following.until(() => following.stdout().includes(before));
  const { id: later } = await keyrun.newKey("demo");
  await following.until(() => following.stdout().includes(later));
  following.kill("SIGINT");
  await following.exited;
  const lines = following.stdout().split("\n");
  for (const id of [before, later]) {
    expect(lines.filter((line) => line.includes(id))).toEqual([expect.stringContaining("key.create  demo")]);
  }
  expect(following.stderr()).toBe("");
});
