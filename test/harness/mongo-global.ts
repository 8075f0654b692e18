import type { TestProject } from "vitest/node";
import { type MongoServer, mongoServerProgram } from "./mongo-server.ts";
import { createTempFolders, databasesFolder } from "./temp-folders.ts";

const folders = createTempFolders(databasesFolder);
let server: MongoServer | undefined;

/** Finds or starts the MongoDB server of a test run, before all tests. */
export async function setup(project: TestProject): Promise<void> {
  const given = process.env.KEYRUN_TEST_MONGODB_URI;
  if (given) return project.provide("mongodbUri", given);
  const program = mongoServerProgram(say);
  if ("missing" in program) {
    const problem = `The suites on MongoDB are left out, as ${program.missing}: set KEYRUN_TEST_MONGODB_URI, or install mongod or Go, to include them.`;
    if (process.env.KEYRUN_TEST_REQUIRE_ALL === "1") throw new Error(problem);
    say(problem);
    return project.provide("mongodbUri", "");
  }
  server = await program.start(folders.create());
  project.provide("mongodbUri", server.uri);
}

export async function teardown(): Promise<void> {
  await server?.kill();
  folders.remove();
}

function say(line: string): void {
  process.stderr.write(`${line}\n`);
}
