import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { listEvents } from "#src/cli/audit.ts";
import type { Terminal } from "#src/cli/terminal.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { repository, spawnKeyrun } from "../harness/keyrun-process.ts";
import { createManualClock } from "../harness/manual-clock.ts";

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
  const time = { unixMs: createManualClock().unixMs, wait: async () => {} };
  await expect(listEvents(terminal, { follow: true }, time)).rejects.toThrow("over");
  expect(lines).toHaveLength(2);
  expect(lines[0]).toContain("unknown");
  expect(lines[1]).toContain("done");
});

/** Follows events that are there from `writtenMs` on, with times of their own, for so long. */
async function linesOfFollow(
  since: string,
  { forMs, events }: { forMs: number; events: { id: string; timeMs: number; writtenMs: number }[] },
): Promise<string[]> {
  const clock = createManualClock({ monotonicMs: 0, unixMs: startMs });
  const lines: string[] = [];
  const audit = {
    listEvents: async ({ startTime }: { startTime: string }) => {
      if (clock.unixMs() > startMs + forMs) throw new Error("the test is over");
      const there = events.filter(({ writtenMs }) => writtenMs <= clock.unixMs());
      const found = there.filter(({ timeMs }) => timeMs >= Date.parse(startTime));
      found.sort((a, b) => b.timeMs - a.timeMs);
      return { events: found.map(({ id, timeMs }) => ({ id, target: id, time: new Date(timeMs).toJSON() })) };
    },
  };
  const server = async () => ({ audit }) as unknown as Awaited<ReturnType<Terminal["server"]>>;
  const terminal = { server, print: (line: string) => void lines.push(line) } as unknown as Terminal;
  const time = { unixMs: clock.unixMs, wait: async (ms: number) => clock.advance(ms) };
  await expect(listEvents(terminal, { follow: true, since }, time)).rejects.toThrow("over");
  return lines.map((line) => /event-\w+/.exec(line)?.[0] ?? line);
}

const startMs = Date.UTC(2026, 4, 4, 12);
const minuteMs = 60_000;

test("--follow shows nothing that is older than --since", async () => {
  const minutesAgo = (minutes: number, id: string) => {
    const timeMs = startMs - minutes * minuteMs;
    return { id, timeMs, writtenMs: timeMs };
  };
  const events = [minutesAgo(70, "event-a"), minutesAgo(3, "event-b"), minutesAgo(0.5, "event-c")];
  const forMs = 3 * minuteMs;
  expect(await linesOfFollow("1m", { events, forMs })).toEqual(["event-c"]);
  expect(await linesOfFollow("4m", { events, forMs })).toEqual(["event-b", "event-c"]);
  expect(await linesOfFollow("1d", { events, forMs })).toEqual(["event-a", "event-b", "event-c"]);
});

test("--follow shows once what is written up to an hour after its time, and what comes meanwhile at once", async () => {
  const late = { id: "event-late", timeMs: startMs + 1_000, writtenMs: startMs + 60 * minuteMs };
  const joined = { id: "event-joined", timeMs: startMs + 2_000, writtenMs: startMs + 65_000 };
  const prompt = { id: "event-prompt", timeMs: startMs + 70_000, writtenMs: startMs + 70_000 };
  const events = [late, joined, prompt];
  const before = await linesOfFollow("1m", { events, forMs: 71_000 });
  expect(before).toEqual(["event-joined", "event-prompt"]);
  const after = await linesOfFollow("1m", { events, forMs: 130 * minuteMs });
  expect(after).toEqual(["event-joined", "event-prompt", "event-late"]);
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
