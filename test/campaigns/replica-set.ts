import { type ChildProcess, spawn } from "node:child_process";
import { setTimeout as pause } from "node:timers/promises";
import { MongoClient } from "mongodb";
import { freePort } from "../harness/free-port.ts";
import { killServer } from "../harness/mongo-server.ts";
import { createTempFolders, databasesFolder } from "../harness/temp-folders.ts";

/** One `mongod` of a replica set. */
export interface ReplicaMember {
  readonly address: string;
  kill(): Promise<void>;
  start(): void;
  pause(): void;
  resume(): void;
  /** Has the others vote for one of them. */
  stepDown(): Promise<void>;
}

/** Three `mongod`s that vote, so that one of them may be lost. */
export interface ReplicaSet {
  /** Of the database `keyrun`. */
  readonly uri: string;
  /** Resolves once there is one that answers as the primary, other than this one. */
  primary(other?: ReplicaMember): Promise<ReplicaMember>;
  close(): Promise<void>;
}

/** Needs a `mongod` on the path. */
export async function startReplicaSet(): Promise<ReplicaSet> {
  const folders = createTempFolders(databasesFolder);
  const members: ReplicaMember[] = [];
  for (let n = 0; n < 3; n += 1) members.push(openMember(await freePort(), folders.create()));
  for (const member of members) member.start();
  // One that does not listen yet would be refused as a member.
  for (const member of members) await ask(member, { hello: 1 }, 60_000);
  const hosts = members.map(({ address }, _id) => ({ _id, host: address }));
  await ask(members[0]!, { replSetInitiate: { _id: "keyrun", members: hosts } }, 60_000);
  const addresses = members.map(({ address }) => address).join();
  return {
    uri: `mongodb://${addresses}/keyrun?replicaSet=keyrun`,
    async primary(other) {
      for (;;) {
        for (const member of members) {
          if (member === other) continue;
          const hello = await ask(member, { hello: 1 }, 1_000).catch(() => undefined);
          if (hello?.isWritablePrimary === true) return member;
        }
        await pause(50);
      }
    },
    async close() {
      for (const member of members) await member.kill();
      folders.remove();
    },
  };
}

function openMember(port: number, dataDir: string): ReplicaMember {
  const address = `127.0.0.1:${port}`;
  let running: ChildProcess | undefined;
  process.once("exit", () => running?.kill("SIGKILL"));
  const member: ReplicaMember = {
    address,
    start() {
      const place = ["--bind_ip", "127.0.0.1", "--port", String(port), "--dbpath", dataDir];
      running = spawn("mongod", ["--replSet", "keyrun", ...place], { stdio: "ignore" });
    },
    async kill() {
      if (running) await killServer(running);
    },
    pause: () => running?.kill("SIGSTOP"),
    resume: () => running?.kill("SIGCONT"),
    async stepDown() {
      await ask(member, { replSetStepDown: 20, force: true }, 30_000);
    },
  };
  return member;
}

/** Asks this member alone, and a new connection each time: the last may have been cut. */
async function ask({ address }: ReplicaMember, command: Record<string, unknown>, msMax: number) {
  const times = { serverSelectionTimeoutMS: msMax, connectTimeoutMS: msMax, socketTimeoutMS: msMax };
  const client = new MongoClient(`mongodb://${address}/?directConnection=true`, times);
  try {
    return await client.db("admin").command(command);
  } finally {
    await client.close();
  }
}
