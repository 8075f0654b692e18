import { MongoClient } from "mongodb";
import { mongodbUri } from "./needs.ts";

/** The URI of a database on the server. */
export function withDatabase(uri: string, name: string): string {
  return uri.replace(/^([a-z+]+:\/\/[^/?]+)\/?[^?]*/, `$1/${name}`);
}

/** New databases for a test file. `drop` drops them all. */
export function createMongoDatabases(): { createUri: () => string; drop: () => Promise<void> } {
  const names: string[] = [];
  return {
    createUri() {
      // The process id, with the start time of this file's context, makes the name unique.
      const name = `keyrun-test-${process.pid}-${Math.round(performance.timeOrigin)}-${names.length}`;
      names.push(name);
      return withDatabase(mongodbUri, name);
    },
    async drop() {
      if (names.length === 0) return;
      const client = new MongoClient(mongodbUri);
      for (const name of names.splice(0)) await client.db(name).dropDatabase();
      await client.close();
    },
  };
}
