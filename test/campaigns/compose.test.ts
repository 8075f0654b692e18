import { execFileSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { Code } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { connectCallers } from "../harness/callers.ts";
import {
  type Compose,
  containerOf,
  healthCommand,
  type ImageDefaults,
  readCompose,
} from "../harness/compose.ts";
import { eventually, whileAnswer } from "../harness/eventually.ts";
import { starved } from "../harness/fleet.ts";
import { repository, restRun, servedRun, statusOf } from "../harness/keyrun-process.ts";
import { type MongoServer, mongoServerProgram } from "../harness/mongo-server.ts";
import { createTempFolders, databasesFolder } from "../harness/temp-folders.ts";
import { builtImage, imageMissing } from "./image/built-image.ts";
import { type Container, startContainer } from "./image/container.ts";
import { type ContainerNetwork, openContainerNetwork } from "./image/container-network.ts";

const readyMsMax = 180_000;
const program = mongoServerProgram();
const missing = imageMissing() ?? ("missing" in program ? program.missing : undefined);

// Each service is a container with the command, settings, secrets, names and rights that
// compose.yaml gives it. But in place of the images of HAProxy and Valkey are Debian's packages of
// the same versions, and in place of MongoDB, which Debian lacks, is the server of the other tests,
// which takes no password.
describe.skipIf(missing !== undefined)(
  `the fleet of compose.yaml${missing ? ` (left out: ${missing})` : ""}`,
  () => {
    const folders = createTempFolders();
    const databases = createTempFolders(databasesFolder);
    const folder = folders.create();
    const compose: Compose = readCompose();
    const containers = new Map<string, Container>();
    const images = new Map<string, ImageDefaults>();
    let network: ContainerNetwork;
    let mongo: MongoServer;
    let imageHealth: readonly string[] = [];

    beforeAll(async () => {
      const { rootfs, serversRootfs, config } = await builtImage();
      const { User: user, Entrypoint: entrypoint, Cmd: command, Env } = config;
      const env = Object.fromEntries(Env.map((each) => each.split(/=(.*)/s).slice(0, 2)));
      for (const name of ["keyrun-1", "keyrun-2"])
        images.set(name, { rootfs, user, entrypoint, command, env });
      for (const name of ["valkey", "balancer"]) images.set(name, { rootfs: serversRootfs });
      imageHealth = config.Healthcheck.Test.slice(1);
      // Else the server for MongoDB waits for the disk, to which the new image is being written.
      execFileSync("sync");
      network = await openContainerNetwork();

      mkdirSync(join(folder, "deploy"));
      cpSync(join(repository, "deploy"), join(folder, "deploy"), { recursive: true });
      // As in a clone that was made with `umask 077`.
      for (const { file } of Object.values(compose.configs)) chmodSync(join(folder, file), 0o600);
      execFileSync(join(folder, "deploy/make-secrets"));
      if (!("start" in program)) throw new Error(program.missing);
      mongo = await program.start(databases.create(), { host: network.hostAddress, port: 27_017 });
      network.nameHost("mongodb");
      const uri = join(folder, "secrets/keyrun-mongodb-uri");
      rmSync(uri);
      writeFileSync(uri, "mongodb://mongodb:27017/keyrun?directConnection=true\n", { mode: 0o444 });

      for (const name of ["valkey", "keyrun-1", "keyrun-2", "balancer"]) await start(name);
      await until(async () => (await statusOf(`${balancer()}/readyz`)) === 200);
    }, 900_000);

    afterAll(async () => {
      for (const container of containers.values()) await container.kill();
      await mongo?.kill();
      await network?.close();
      databases.remove();
      folders.remove();
    });

    async function start(name: string): Promise<void> {
      const options = containerOf(compose, { name, image: images.get(name)!, folder });
      const container = await startContainer({ ...options, network, folder: join(folders.create(), name) });
      containers.set(name, container);
      await until(async () => (await health(name)) === 0);
    }

    /** The status of the health check of compose.yaml, else of the image, as an engine runs it. */
    async function health(name: string): Promise<number | null> {
      const command = healthCommand(compose.services[name]!) ?? imageHealth;
      const container = containers.get(name)!;
      return container.isOver() ? null : (await container.exec(command)).code;
    }

    async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
      const end = performance.now() + readyMsMax;
      while (!(await condition())) {
        const over = [...containers].filter(([, container]) => container.isOver());
        if (over.length > 0 || performance.now() > end) {
          throw new Error(
            [...containers].map(([name, each]) => `${name}: ${each.output().slice(-1_500)}`).join("\n"),
          );
        }
        await pause(100);
      }
    }

    /** Both instances, and the balancer knows it: it asks every second. */
    const untilAllReady = async () => {
      await until(async () => {
        const asked = ["keyrun-1", "keyrun-2"].map((name) =>
          statusOf(`http://${containers.get(name)!.address}:8080/readyz`),
        );
        return (await Promise.all(asked)).every((status) => status === 200);
      });
      await pause(1_500);
    };
    const balancer = () => `http://${containers.get("balancer")!.address}:8080`;
    /** Asks again where a busy machine makes the store too slow, as the refusal says. */
    const keyrun = async (name: string, ...args: string[]) => {
      for (let tries = 1; ; tries += 1) {
        const { code, stdout, stderr } = await containers.get(name)!.exec(["keyrun", ...args]);
        // A try that came too late for its answer may have made the team.
        if (code === 0 || (tries > 1 && stderr.includes("There is already a team"))) return stdout.trim();
        expect(tries, `${stderr}${containers.get(name)!.output().slice(-2_000)}`).toBeLessThan(60);
        await pause(1_000);
      }
    };
    /** The same for a run. */
    const runOnce = (value: string) => servedRun(balancer(), { value });

    test("every health check tells a service that serves from one that does not", async () => {
      const checked = [...containers.keys()];
      expect(checked).toEqual(["valkey", "keyrun-1", "keyrun-2", "balancer"]);
      expect(await Promise.all(checked.map(health))).toEqual([0, 0, 0, 0]);
      const elsewhere = (command: readonly string[]) =>
        command.map((part) => part.replace("8080", "8088").replace("valkey-cli", "valkey-cli -p 6380"));
      for (const name of ["valkey", "balancer"]) {
        const command = elsewhere(healthCommand(compose.services[name]!)!);
        expect((await containers.get(name)!.exec(command)).code, name).not.toBe(0);
      }
    });

    test("a key of one Keyrun runs apps through the balancer on both, over REST and gRPC, under one limit", async () => {
      await keyrun("keyrun-1", "teams", "create", "acme");
      const value = await keyrun("keyrun-1", "keys", "create", "--team", "acme");
      await untilAllReady();
      const left: number[] = [];
      for (let sent = 0; sent < 6; sent += 1) {
        const { status, headers, body } = await runOnce(value);
        expect(status, body).toBe(200);
        left.push(Number(headers.get("ratelimit-remaining")));
      }
      // Both count in one log. Where its answer was late, a request may be counted and not served.
      expect(left[0]).toBeLessThan(60);
      for (const [index, remaining] of left.slice(1).entries()) expect(remaining).toBeLessThan(left[index]!);
      const grpc = connectCallers.gRPC!(balancer());
      const outcome = await eventually(
        () => grpc.run({ appId: "echo", text: "x", authorization: `Bearer ${value}` }),
        whileAnswer((outcome) => outcome.kind === "refused" && outcome.code === Code.Unavailable),
      );
      grpc.close();
      expect(outcome, `${JSON.stringify(outcome)} ${containers.get("balancer")!.output()}`).toMatchObject({
        kind: "ok",
      });

      const token = readFileSync(join(folder, "secrets/keyrun-service-token"), "utf8").trim();
      for (const name of ["keyrun-1", "keyrun-2"]) {
        const hasRun = async () => {
          const metrics = await fetch(`http://${containers.get(name)!.address}:8081/metrics`, {
            headers: { authorization: `Bearer ${token}` },
          });
          return /^keyrun_requests_total\{entry="rest",outcome="OK".*\} [1-9]\d*$/m.test(
            await metrics.text(),
          );
        };
        // The balancer of a busy machine may take its time until it uses both.
        for (let runs = 0; runs < 40 && !(await hasRun()); runs += 1) {
          await runOnce(value);
          await pause(250);
        }
        expect(await hasRun(), name).toBe(true);
      }

      await keyrun("keyrun-2", "keys", "revoke", "--team", "acme", value.replace(/\..*/, ""));
      for (let sent = 0; sent < 4; sent += 1) {
        expect((await runOnce(value)).status).toBe(401);
      }
    });

    test("Valkey answers nobody without the password, and refuses to evict", async () => {
      const valkey = containers.get("valkey")!;
      expect((await valkey.exec(["valkey-cli", "ping"])).stdout).toContain("NOAUTH");
      const ask = "valkey-cli config get maxmemory-policy; valkey-cli config get save";
      const asked = await valkey.exec([
        "sh",
        "-c",
        `read -r _ REDISCLI_AUTH </run/secrets/valkey.conf; export REDISCLI_AUTH; ${ask}`,
      ]);
      expect(asked.stdout.split("\n").slice(0, 4)).toEqual(["maxmemory-policy", "noeviction", "save", ""]);
    });

    test("an instance that stops loses no request, and is gone before its time is over", async () => {
      await keyrun("keyrun-1", "teams", "create", "rolling", "--plan", "enterprise");
      const value = await keyrun("keyrun-1", "keys", "create", "--team", "rolling");
      await untilAllReady();
      const failed: string[] = [];
      let sent = 0;
      let over = false;
      const load = async () => {
        while (!over) {
          const { status, body } = await restRun(balancer(), { value }).catch((thrown) => ({
            status: 0,
            body: String(thrown),
          }));
          sent += 1;
          if (status !== 200) failed.push(`${status} ${body}`);
          await pause(50);
        }
      };
      const lanes = [load(), load()];
      const leaving = containers.get("keyrun-1")!;
      leaving.signal(compose.services["keyrun-1"]!.stop_signal ?? "SIGTERM");
      const graceMs = Number.parseInt(compose.services["keyrun-1"]!.stop_grace_period!, 10) * 1_000;
      const ended = await Promise.race([leaving.exited, pause(graceMs, "not in time", { ref: false })]);
      over = true;
      await Promise.all(lanes);
      expect(ended).toEqual({ code: 0, signal: null });
      expect(sent).toBeGreaterThan(20);
      // An instance that says that the machine starves it may answer 503 for that.
      const isStarved = [...containers.values()].some((container) => starved.test(container.output()));
      const ofKeyrun = /^503 .*"code":"unavailable"/;
      expect(failed.filter((words) => !(isStarved && ofKeyrun.test(words)))).toEqual([]);
    });
  },
);
