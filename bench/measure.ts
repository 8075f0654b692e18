import type { Load } from "./load.ts";
import type { Question } from "./questions.ts";
import { type Subject, startSubject } from "./subject.ts";

export interface Plan {
  readonly rounds: number;
  /** Sent to each subject in each round. */
  readonly load: Load;
  /** Sent to each subject before the first, so that its code is compiled and its caches are warm. */
  readonly warmUp: Load;
}

/** What a request cost a subject, in microseconds of processor time, by round. */
export type Costs = ReadonlyMap<string, readonly number[]>;

/**
 * Measures the question's subjects, each in a process of its own. They take turns, so that a machine whose speed
 * drifts drifts for all of them.
 */
export async function measure({ subjects, send }: Question, { rounds, load, warmUp }: Plan): Promise<Costs> {
  const costs = new Map<string, number[]>(subjects.map((name) => [name, []]));
  const started: Subject[] = [];
  try {
    for (const name of subjects) started.push(await startSubject(name));
    for (const subject of started) await send(subject, warmUp);
    for (let round = 0; round < rounds; round++) {
      for (const subject of started) {
        const before = await subject.cpuUs();
        await send(subject, load);
        costs.get(subject.name)?.push(((await subject.cpuUs()) - before) / load.requests);
      }
    }
  } finally {
    await Promise.all(started.map((subject) => subject.stop()));
  }
  return costs;
}
