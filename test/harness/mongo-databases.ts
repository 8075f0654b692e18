import { randomUUID } from "node:crypto";
import { MongoClient } from "mongodb";
import { afterAll } from "vitest";
import { mongodbUri, storesOfTier } from "./needs.ts";

/** The URI of a database on the server. */
export function withDatabase(uri: string, name: string): string {
  return uri.replace(/^([a-z+]+:\/\/[^/?]+)\/?[^?]*/, `$1/${name}`);
}

/** New databases for a test file. `drop` drops them all. */
export function createMongoDatabases(): { createUri: () => string; drop: () => Promise<void> } {
  const names: string[] = [];
  return {
    createUri() {
      const name = `keyrun-test-${randomUUID()}`;
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

/**
 * The name of the store on which a file of two tiers is tried, and the settings of a new one. They
 * live until the end of the file.
 */
export function storeOfTier(): [name: string, settings: () => Record<string, string>][] {
  const databases = createMongoDatabases();
  afterAll(() => databases.drop());
  return storesOfTier<[string, () => Record<string, string>]>(
    ["the embedded store", () => ({})],
    ["MongoDB", () => ({ KEYRUN_MONGODB_URI: databases.createUri() })],
  );
}
