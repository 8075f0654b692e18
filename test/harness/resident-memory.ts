import { readFileSync } from "node:fs";

/** The resident memory of a process, in MB of 10^6 bytes, as Linux counts it. */
export interface ResidentMemory {
  readonly now: number;
  /** The most since the start of the process. */
  readonly peak: number;
}

export function residentMemory(pid: number): ResidentMemory {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const megabytes = (name: string) => {
    const [, kib] = new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(status) ?? [];
    if (kib === undefined) throw new Error(`/proc/${pid}/status has no ${name}`);
    return (Number(kib) * 1_024) / 1e6;
  };
  return { now: megabytes("VmRSS"), peak: megabytes("VmHWM") };
}
