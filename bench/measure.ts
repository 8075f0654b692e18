import type { Load } from "./load.ts";
import type { Question } from "./questions.ts";
import { type Missing, type Subject, startApp, startSubject } from "./subject.ts";

export interface Plan {
  readonly rounds: number;
  /** Sent to each subject in each round, for each number of connections. */
  readonly requests: number;
  /** Sent to each subject first, so that its code is compiled and its caches are warm. */
  readonly warmUp: Load;
  /** Sent to each subject before its memory is read, beside the rounds. */
  readonly memoryRequests: number;
  /** Another Node, on which the bare server and Keyrun run as well. */
  readonly node?: string | undefined;
  /** In place of the question's own. */
  readonly connections?: readonly number[] | undefined;
}

/** What one subject did in one round. */
export interface Round {
  /** Microseconds of processor time a request. */
  readonly cpuUs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export interface Row {
  readonly name: string;
  readonly rounds: readonly Round[];
  /** The resident memory after the whole load. */
  readonly residentMb: number;
}

/** The rows for one number of requests at a time. */
export interface Measured {
  readonly connections: number;
  readonly rows: readonly Row[];
}

export interface Measurement {
  readonly tables: readonly Measured[];
  /** Subjects that could not be started here, and why. */
  readonly missing: readonly Missing[];
}

/**
 * Measures the subjects of a question, each in a process of its own. They take turns in each round,
 * so that a change in the machine's speed affects all of them.
 */
export async function measure(question: Question, plan: Plan): Promise<Measurement> {
  const stops: (() => Promise<void>)[] = [];
  const subjects: Subject[] = [];
  const missing: Missing[] = [];
  try {
    const app = question.app && (await startApp(question.app));
    if (app) stops.push(app.stop);
    const [bare = ""] = question.subjects;
    const again = plan.node === undefined ? [] : [bare, "keyrun"].map((name) => ({ name, node: plan.node }));
    const all: { name: string; node?: string | undefined }[] = question.subjects.map((name) => ({ name }));
    for (const { name, node } of [...all, ...again]) {
      const started = await startSubject(name, app?.place, node);
      stops.push(started.stop);
      if ("missing" in started) missing.push(started);
      else subjects.push(started);
    }
    for (const subject of subjects) await question.send(subject, plan.warmUp);
    const tables: { connections: number; rounds: Map<Subject, Round[]> }[] = [];
    for (const connections of plan.connections ?? question.connections) {
      const load = { connections, requests: plan.requests };
      tables.push({ connections, rounds: await measureRounds(question, subjects, load, plan.rounds) });
    }
    for (const subject of subjects) await sendForMemory(question, subject, plan);
    const resident = new Map(subjects.map((subject) => [subject, subject.residentMb()]));
    return {
      missing,
      tables: tables.map(({ connections, rounds }) => ({
        connections,
        rows: subjects.map((subject) => ({
          name: subject.name,
          rounds: rounds.get(subject)!,
          residentMb: resident.get(subject)!,
        })),
      })),
    };
  } finally {
    // A gateway goes before its app.
    for (const stop of stops.reverse()) await stop();
  }
}

async function measureRounds(
  { send }: Question,
  subjects: readonly Subject[],
  load: Load,
  count: number,
): Promise<Map<Subject, Round[]>> {
  const rounds = new Map<Subject, Round[]>(subjects.map((subject) => [subject, []]));
  for (let round = 0; round < count; round++) {
    for (const subject of subjects) {
      const before = subject.cpuUs();
      const ofLoad = await send(subject, load);
      const cpuUs = (subject.cpuUs() - before) / load.requests;
      // A load that never sleeps takes a core for itself, and so from the subject's helper threads.
      // One at a time, where nothing else fills that core, times are those of a load that sleeps.
      const isAlone = load.connections === 1;
      const latencies = (isAlone ? await send(subject, { ...load, sleeps: true }) : ofLoad).sort();
      const quantile = (share: number) => latencies[Math.ceil(latencies.length * share) - 1]!;
      rounds.get(subject)!.push({ cpuUs, p50Ms: quantile(0.5), p99Ms: quantile(0.99) });
    }
  }
  return rounds;
}

/** In parts: one subject's keys stay within their limit of a minute while the others take turns. */
async function sendForMemory({ send }: Question, subject: Subject, { memoryRequests }: Plan): Promise<void> {
  const part = 20_000;
  for (let left = memoryRequests; left > 0; left -= part) {
    await send(subject, { connections: 32, requests: Math.min(left, part) });
  }
}
