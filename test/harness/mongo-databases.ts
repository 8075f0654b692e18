import { MongoClient } from "mongodb";
import { inject } from "vitest";

/** The test run's MongoDB server; empty where there is none. */
export const mongodbUri: string = inject("mongodbUri");

/** The server's URI with the name of a database. */
export function withDatabase(uri: string, name: string): string {
  return uri.replace(/^([a-z+]+:\/\/[^/?]+)\/?[^?]*/, `$1/${name}`);
}

/** New databases for a test file, all dropped in the end. */
export function createMongoDatabases(): { createUri: () => string; drop: () => Promise<void> } {
  const names: string[] = [];
  return {
    createUri() {
      // No other process and no other file in this one has the number and the time of start of this.
      const name = `keyrun-test-${process.pid}-${Math.round(performance.timeOrigin)}-${names.length}`;
      names.push(name);
      return withDatabase(mongodbUri, name);
    },
    async drop() {
      const client = new MongoClient(mongodbUri);
      for (const name of names.splice(0)) await client.db(name).dropDatabase();
      await client.close();
    },
  };
}
