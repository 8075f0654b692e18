import { readdirSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { loadHttp1 } from "../../bench/load.ts";
import { measure, type Plan, type Row } from "../../bench/measure.ts";
import { cpuUsOf, processTree, residentMbOf } from "../../bench/processes.ts";
import { questions } from "../../bench/questions.ts";
import { type Subject, startSubject } from "../../bench/subject.ts";
import { tableOf } from "../../bench/table.ts";

const plan: Plan = {
  rounds: 2,
  // Linux counts the time of a thread that runs when it sleeps, or with a tick of up to 10 ms. A
  // server that two connections keep awake may answer 200 requests in less.
  requests: 1_000,
  warmUp: { connections: 2, requests: 10 },
  memoryRequests: 10,
  connections: [2],
};

describe.each(questions)("$name", (question) => {
  test("every server starts, gives the right answer, and is in the table with its cost", async () => {
    const { tables, missing } = await measure(question, plan);
    // A program of the system may be missing, and is then named with the reason.
    expect(["go-proxy", "nginx"]).toEqual(expect.arrayContaining(missing.map(({ name }) => name)));
    const left = question.subjects.filter((name) => missing.every((each) => each.name !== name));
    const [table] = tables;
    expect(table?.rows.map(({ name }) => name)).toEqual(left);
    for (const { name, rounds, residentMb } of table?.rows ?? []) {
      expect(rounds).toHaveLength(plan.rounds);
      expect(rounds.filter(({ p50Ms, p99Ms }) => !(p50Ms > 0 && p99Ms >= p50Ms))).toEqual([]);
      // Of one round: a thread that ends takes the time that it has used out of the sum.
      expect(Math.max(...rounds.map(({ cpuUs }) => cpuUs)), name).toBeGreaterThan(0);
      expect(residentMb).toBeGreaterThan(1);
    }
    const lines = tableOf(question.title, table!, plan).split("\n").slice(4);
    expect(lines.map((line) => line.split(" ")[1])).toEqual(left);
    expect(lines[0]).toMatch(/\| 1\.00 \| 1\.00 to 1\.00 \|/);
  });
});

test("every server that there is has its place in a table", () => {
  const files = readdirSync(new URL("../../bench/subjects", import.meta.url));
  const asked = new Set(questions.flatMap(({ subjects }) => subjects.map((name) => `${name}.ts`)));
  expect([...asked].sort()).toEqual(files.sort());
});

test("each number of requests at a time has its rows", async () => {
  const [question] = questions;
  const { tables } = await measure(
    { ...question!, subjects: ["bare-http"], connections: [3, 1] },
    {
      ...plan,
      connections: undefined,
    },
  );
  expect(tables.map(({ connections, rows }) => [connections, rows.length])).toEqual([
    [3, 1],
    [1, 1],
  ]);
});

test("an answer without the text that was sent ends the load", async () => {
  const subject = (await startSubject("bare-http")) as Subject;
  const body = '{"text":"one"}';
  const request = `POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  const load = (expected: string) =>
    loadHttp1(subject.port, { requests: [request], expected }, { connections: 2, requests: 4 });
  try {
    expect(await load("one")).toHaveLength(4);
    await expect(load("two")).rejects.toThrow("200 OK");
  } finally {
    await subject.stop();
  }
});

test("a multiple is taken within its round, so that what slows all servers counts for none", () => {
  const row = (name: string, costs: readonly number[], residentMb: number): Row => ({
    name,
    rounds: costs.map((cpuUs) => ({ cpuUs, p50Ms: cpuUs / 10, p99Ms: cpuUs })),
    residentMb,
  });
  const rows = [row("bare", [10, 100, 10], 50), row("other", [20, 200, 40], 99.6)];
  const table = tableOf("T", { connections: 1, rows }, { ...plan, rounds: 3, requests: 200 });
  expect(table.split("\n")[0]).toBe("**T**, one at a time: 3 rounds of 200 requests");
  expect(table.split("\n").at(-1)).toBe("| other | 40.0 | 2.00 | 2.00 to 4.00 | 4.00 | 40.00 | 100 |");
});

test("the cost of a process is what Node itself counts, in all of its threads", () => {
  const pids = processTree(process.pid);
  expect(pids[0]).toBe(process.pid);
  const busyUntil = performance.now() + 50;
  while (performance.now() < busyUntil);
  const { user, system } = process.cpuUsage();
  // Threads that have ended count for Node, and not in /proc.
  expect(cpuUsOf([process.pid])).toBeLessThanOrEqual((user + system) * 1.05);
  expect(cpuUsOf([process.pid])).toBeGreaterThan((user + system) * 0.5);
  expect(residentMbOf([process.pid])).toBeCloseTo(process.memoryUsage.rss() / 1e6, -2);
});
