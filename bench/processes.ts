import { readdirSync, readFileSync } from "node:fs";

/** A process and its descendants, as nginx and its workers. */
export function processTree(pid: number): number[] {
  const children = threadsOf(pid).flatMap((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8").split(" ").filter(Boolean).map(Number),
  );
  return [pid, ...children.flatMap(processTree)];
}

/**
 * Microseconds of processor time, user and system, that the threads of these processes have used so
 * far. Linux counts it in nanoseconds; `/proc/PID/stat` would round it to 10 ms.
 */
export function cpuUsOf(pids: readonly number[]): number {
  let nanoseconds = 0;
  for (const pid of pids) {
    for (const thread of threadsOf(pid)) {
      const [onCpu] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ");
      nanoseconds += Number(onCpu);
    }
  }
  return nanoseconds / 1_000;
}

/** The resident memory of these processes, in MB of 10^6 bytes. */
export function residentMbOf(pids: readonly number[]): number {
  const kib = pids.map(
    (pid) => /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1],
  );
  return (kib.reduce((sum, each) => sum + Number(each), 0) * 1_024) / 1e6;
}

function threadsOf(pid: number): string[] {
  return readdirSync(`/proc/${pid}/task`);
}
