import type { Load } from "./load.ts";
import type { Question } from "./questions.ts";
import { type Subject, startSubject } from "./subject.ts";

export interface Plan {
  readonly rounds: number;
  /** Sent to each subject in each round. */
  readonly load: Load;
  /** Sent to each subject first, so that its code is compiled and its caches are warm. */
  readonly warmUp: Load;
}

/** Microseconds of processor time a request, by subject and round. */
export type Costs = ReadonlyMap<string, readonly number[]>;

/**
 * Measures the subjects of a question, each in a process of its own. They take turns in each round,
 * so that a change in the machine's speed affects all of them.
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
