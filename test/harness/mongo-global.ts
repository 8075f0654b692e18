import type { TestProject } from "vitest/node";
import { type MongoServer, mongoServerProgram } from "./mongo-server.ts";
import { createTempFolders, databasesFolder } from "./temp-folders.ts";

interface RunServer {
  readonly uri: string;
  stop(): Promise<void>;
}

/** Each project of a test run loads this file for itself, and all share one server. */
const ofRun = globalThis as { keyrunMongo?: Promise<RunServer> | undefined };

/** Finds or starts the MongoDB server of a test run, before all tests. */
export async function setup(project: TestProject): Promise<void> {
  const given = process.env.KEYRUN_TEST_MONGODB_URI;
  if (given) return project.provide("mongodbUri", given);
  ofRun.keyrunMongo ??= startServer();
  project.provide("mongodbUri", (await ofRun.keyrunMongo).uri);
}

export async function teardown(): Promise<void> {
  const started = ofRun.keyrunMongo;
  ofRun.keyrunMongo = undefined;
  await (await started)?.stop();
}

async function startServer(): Promise<RunServer> {
  const program = mongoServerProgram(say);
  if ("missing" in program) {
    const problem = `The suites on MongoDB are left out, as ${program.missing}: set KEYRUN_TEST_MONGODB_URI, or install mongod or Go, to include them.`;
    if (process.env.KEYRUN_TEST_REQUIRE_ALL === "1") throw new Error(problem);
    say(problem);
    return { uri: "", stop: async () => {} };
  }
  const folders = createTempFolders(databasesFolder);
  const server: MongoServer = await program.start(folders.create());
  return {
    uri: server.uri,
    async stop() {
      await server.kill();
      folders.remove();
    },
  };
}

function say(line: string): void {
  process.stderr.write(`${line}\n`);
}
