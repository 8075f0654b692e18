// Loaded into Keyrun's own process by `--import`. It measures the turns of the event loop in
// processor time of the main thread, between the words "begin" and "end" on the socket that
// TURN_METER names. While it measures, the loop never sleeps: one turn is one pass of the loop.
import { createServer } from "node:net";
import { PerformanceObserver } from "node:perf_hooks";

/** What the meter tells at the end, in milliseconds of processor time. */
export interface MeasuredTurns {
  readonly longestMs: number;
  /** How much of the longest turn the garbage collector took. */
  readonly collectedMs: number;
  /** Of all turns, without what the meter's own empty turns take. */
  readonly wholeMs: number;
}

interface Turn {
  readonly cpuMs: number;
  readonly fromMs: number;
  readonly toMs: number;
}

/** An empty turn takes a few microseconds. */
const emptyTurnMs = 0.03;

let longest: Turn = { cpuMs: 0, fromMs: 0, toMs: 0 };
let wholeMs = 0;
let isMeasuring = false;
let lastCpuMs = 0;
let lastMs = 0;
let collections: { readonly fromMs: number; readonly toMs: number }[] = [];

const observer = new PerformanceObserver((list) => {
  for (const { startTime, duration } of list.getEntries()) {
    collections.push({ fromMs: startTime, toMs: startTime + duration });
  }
});

function cpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

function turn(): void {
  const [now, nowMs] = [cpuMs(), performance.now()];
  const taken = now - lastCpuMs;
  if (taken > emptyTurnMs) wholeMs += taken;
  if (taken > longest.cpuMs) longest = { cpuMs: taken, fromMs: lastMs, toMs: nowMs };
  lastCpuMs = now;
  lastMs = nowMs;
  if (isMeasuring) setImmediate(turn);
}

function begin(): void {
  longest = { cpuMs: 0, fromMs: 0, toMs: 0 };
  wholeMs = 0;
  collections = [];
  observer.observe({ entryTypes: ["gc"] });
  isMeasuring = true;
  lastCpuMs = cpuMs();
  lastMs = performance.now();
  setImmediate(turn);
}

function end(): MeasuredTurns {
  isMeasuring = false;
  observer.disconnect();
  const inLongest = collections.map(({ fromMs, toMs }) =>
    Math.max(0, Math.min(toMs, longest.toMs) - Math.max(fromMs, longest.fromMs)),
  );
  const collectedMs = inLongest.reduce((sum, each) => sum + each, 0);
  return { longestMs: longest.cpuMs, collectedMs: Math.min(collectedMs, longest.cpuMs), wholeMs };
}

if (process.env.TURN_METER !== undefined) {
  createServer((socket) => {
    socket.setEncoding("utf8").on("data", (word: Buffer | string) => {
      if (String(word) === "begin") {
        begin();
        socket.write("{}");
      } else {
        // The collections of the last turn are told in the next.
        setImmediate(() => setImmediate(() => socket.write(JSON.stringify(end()))));
      }
    });
    socket.on("error", () => {}).unref();
  })
    .listen(process.env.TURN_METER)
    .unref();
}
