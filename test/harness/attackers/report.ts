/** What an attacker has done so far. */
export interface Load {
  /** Connections that were made. */
  connections: number;
  /** Connections that were closed by the server. */
  closed: number;
  requests: number;
  /** Answers whose head arrived. */
  answers: number;
  /** The first of these answers, by status. */
  readonly statuses: Record<string, number>;
  bytesSent: number;
}

export function noLoad(): Load {
  return { connections: 0, closed: 0, requests: 0, answers: 0, statuses: {}, bytesSent: 0 };
}

/** Writes the load to standard output ten times a second, one JSON text a line. */
export function reportRegularly(load: Load): void {
  setInterval(() => process.stdout.write(`${JSON.stringify(load)}\n`), 100);
}

export function countStatus(load: Load, status: string): void {
  load.answers += 1;
  load.statuses[status] = (load.statuses[status] ?? 0) + 1;
}
