import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { Ajv } from "ajv";
import { describe, expect, test } from "vitest";
import { bounds } from "#src/bounds.ts";
import { environment } from "#src/settings/known.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import { networksOf, readCompose } from "../harness/compose.ts";
import { repository } from "../harness/keyrun-process.ts";
import { describeWith, programsMissing } from "../harness/needs.ts";

const folders = tempFolders();

const read = (path: string) => readFileSync(join(repository, path), "utf8");
const compose = readCompose();
const services = Object.entries(compose.services);

describe("compose.yaml", () => {
  // The schema names the address of its own language with https, which no validator knows.
  const { $schema: _, ...schema } = JSON.parse(read("test/deploy/schemas/compose-spec/compose-spec.json"));
  const matches = new Ajv({ strict: false, validateFormats: false }).compile(schema);

  test("is what the schema of the compose specification allows, which refuses a field that it lacks", () => {
    expect(matches(compose), JSON.stringify(matches.errors)).toBe(true);
    expect(matches({ services: { keyrun: { image: "keyrun", read_olny: true } } })).toBe(false);
    expect(matches({ services: { keyrun: { image: "keyrun", healthcheck: { test: 1 } } } })).toBe(false);
  });

  test.each(services)("%s has few rights, bounds, a restart policy and a health check", (name, service) => {
    expect(service).toMatchObject({
      read_only: true,
      cap_drop: ["ALL"],
      security_opt: ["no-new-privileges:true"],
      restart: name === "mongodb-init" ? "on-failure" : "unless-stopped",
      deploy: { resources: { limits: { cpus: expect.any(String), memory: expect.any(String) } } },
    });
    // Both are the image's own where the image is Keyrun's.
    const ofImage = service.build !== undefined;
    if (!ofImage) expect(service.user).toMatch(/^[1-9]\d*:[1-9]\d*$/);
    if (!ofImage && name !== "mongodb-init") expect(service.healthcheck?.test[0]).toBe("CMD");
    expect(service.image).toMatch(/:\d+\.\d+\.\d+$/);
  });

  test("its own image has the version of the package, and two instances differ by their name alone", () => {
    const { "keyrun-1": first, "keyrun-2": second } = compose.services;
    const renamed = JSON.parse(JSON.stringify(first).replaceAll("keyrun-1", "keyrun-2"));
    expect(first?.image).toBe(`keyrun:${JSON.parse(read("package.json")).version}`);
    expect(second).toEqual(renamed);
    expect(second).not.toEqual(first);
  });

  test("lets instances find each other only in the network that no app is in: they send tokens in plain text", () => {
    const names = services.flatMap(([service, facts]) =>
      networksOf(facts).flatMap(([network, { aliases = [] }]) =>
        [service, ...aliases].map((name) => ({ network, name })),
      ),
    );
    for (const service of ["keyrun-1", "keyrun-2"]) {
      const { environment: given } = compose.services[service]!;
      const [host] = given?.KEYRUN_ADVERTISE_ADDRESS?.split(":") ?? [];
      expect(names.filter(({ name }) => name === host)).toEqual([{ network: "stores", name: host }]);
    }
  });

  test("gives the balancer few threads, however many processors the machine has: they count as its processes", () => {
    const [, threads] = /^ {2}nbthread (\d+)$/m.exec(read("deploy/haproxy.cfg")) ?? [];
    const { pids } = compose.services.balancer!.deploy!.resources.limits;
    expect(Number(threads)).toBeGreaterThan(0);
    expect(Number(threads)).toBeLessThan(Number(pids) / 8);
  });

  test("names only settings of Keyrun, with values that it takes", () => {
    for (const [name, { environment: given = {} }] of services.filter(([, { build }]) => build)) {
      expect(Object.keys(given).length).toBeGreaterThan(5);
      for (const [setting, value] of Object.entries(given)) {
        const known = setting.replace(/_FILE$/, "");
        const shape: Record<string, { safeParse(text: string): { success: boolean } }> = environment.shape;
        expect(Object.keys(shape), `${name}: ${setting}`).toContain(known);
        if (known === setting)
          expect(shape[known]!.safeParse(value).success, `${setting}=${value}`).toBe(true);
      }
    }
  });

  test("holds no secret: each stands in a file that deploy/make-secrets makes, and in no port but one", () => {
    const secret = /(SECRET|TOKEN|PASSWORD|URI|URL)/;
    const inline = services.flatMap(([name, { environment: given = {} }]) =>
      Object.keys(given)
        .filter((key) => secret.test(key) && !key.endsWith("_FILE"))
        .map((key) => `${name}: ${key}`),
    );
    expect(inline).toEqual([]);
    const used = services.flatMap(([, { secrets = [] }]) => secrets);
    expect([...new Set(used)].sort()).toEqual(Object.keys(compose.secrets).sort());
    expect(services.flatMap(([, { ports = [] }]) => ports)).toEqual(["127.0.0.1:8080:8080"]);
    expect(compose.networks).toMatchObject({ stores: { internal: true } });
    for (const name of ["mongodb", "valkey"]) expect(compose.services[name]?.networks).toEqual(["stores"]);
  });

  test("stops Keyrun later than it drains, and the balancer sees it leave before that", () => {
    const { stop_grace_period: grace, environment: given } = compose.services["keyrun-1"]!;
    const delayMs = Number(given?.KEYRUN_DRAIN_DELAY_MS);
    const drainMs = environment.shape.KEYRUN_DRAIN_MS_MAX.parse(given?.KEYRUN_DRAIN_MS_MAX);
    expect(Number.parseInt(grace!, 10) * 1_000).toBeGreaterThanOrEqual(delayMs + Number(drainMs) + 5_000);
    const [, inter, fall] = /check inter (\d+)s .*fall (\d+)/.exec(read("deploy/haproxy.cfg")) ?? [];
    expect((Number(inter) * Number(fall) + 1) * 1_000).toBeLessThan(delayMs);
  });
});

describe("deploy/haproxy.cfg", () => {
  test("waits for an answer longer than any app may take, and not so long for a host that is gone", () => {
    const [, seconds] = /timeout server (\d+)s/.exec(read("deploy/haproxy.cfg")) ?? [];
    expect(Number(seconds) * 1_000).toBeGreaterThan(bounds.appTimeoutMsMax + bounds.unaryGraceMs);
    expect(read("deploy/haproxy.cfg")).toMatch(/check inter 1s .*on-marked-down shutdown-sessions/);
  });
});

describeWith(programsMissing("openssl"))("deploy/make-secrets", () => {
  const mounted = Object.values(compose.configs).map(({ file }) => file);

  function place(): string {
    const folder = folders.create();
    mkdirSync(join(folder, "deploy"));
    for (const path of ["deploy/make-secrets", ...mounted]) {
      cpSync(join(repository, path), join(folder, path));
    }
    return folder;
  }
  const make = (folder: string) => spawnSync(join(folder, "deploy/make-secrets"), { encoding: "utf8" });
  const textOf = (folder: string, name: string) => readFileSync(join(folder, "secrets", name), "utf8");

  test("makes each secret of compose.yaml, for the owner of the folder alone, and leaves nothing else", () => {
    const folder = place();
    expect(make(folder)).toMatchObject({ status: 0, stderr: "" });
    const files = Object.values(compose.secrets).map(({ file }) => file.replace("secrets/", ""));
    expect(readdirSync(join(folder, "secrets")).sort()).toEqual(files.sort());
    expect(readdirSync(folder).sort()).toEqual(["deploy", "secrets"]);
    expect(statSync(join(folder, "secrets")).mode & 0o777).toBe(0o700);
    // In a container, the mounted file has to be read by a user with another number.
    for (const name of files) expect(statSync(join(folder, "secrets", name)).mode & 0o777, name).toBe(0o444);
    for (const name of ["KEYRUN_SECRET", "KEYRUN_SERVICE_TOKEN", "KEYRUN_MONGODB_URI", "KEYRUN_REDIS_URL"]) {
      const [, file = ""] = /^secrets\/(.*)$/.exec(compose.secrets[fileOf(name)]!.file) ?? [];
      const shape: Record<string, { safeParse(text: string): { success: boolean } }> = environment.shape;
      expect(shape[name]!.safeParse(textOf(folder, file).trim()).success, name).toBe(true);
    }
    expect(textOf(folder, "keyrun-mongodb-uri")).toContain(textOf(folder, "mongodb-keyrun-password"));
    expect(textOf(folder, "valkey.conf").split(/\s/)[1]).toBe(
      new URL(textOf(folder, "keyrun-redis-url")).password,
    );
  });

  test("lets the users of the containers read what is mounted, in a clone that was made for its owner alone", () => {
    const folder = place();
    for (const path of mounted) chmodSync(join(folder, path), 0o600);
    expect(make(folder).status).toBe(0);
    for (const path of mounted) expect(statSync(join(folder, path)).mode & 0o777, path).toBe(0o644);
    expect(mounted).toEqual(expect.arrayContaining(["deploy/haproxy.cfg", "deploy/mongodb-init.js"]));
  });

  test("makes other secrets each time, and never touches those that are there", () => {
    const [one, two] = [place(), place()];
    for (const folder of [one, two]) make(folder);
    const all = (folder: string) => readdirSync(join(folder, "secrets")).map((name) => textOf(folder, name));
    const first = all(one);
    expect(first.filter((text) => all(two).includes(text))).toEqual([]);
    const again = make(one);
    expect(again).toMatchObject({
      status: 1,
      stdout: "",
      stderr: expect.stringContaining("nothing was changed"),
    });
    expect(all(one)).toEqual(first);
  });

  test("leaves nothing behind where openssl fails", () => {
    const folder = place();
    const empty = folders.create();
    execFileSync("ln", ["-s", "/bin/false", join(empty, "openssl")]);
    const env = { ...process.env, PATH: `${empty}:${process.env.PATH}` };
    const made = spawnSync(join(folder, "deploy/make-secrets"), { env });
    expect(made.status).not.toBe(0);
    expect(readdirSync(folder)).toEqual(["deploy"]);
  });
});

/** The secret of compose.yaml that holds a setting. */
function fileOf(setting: string): string {
  const path = compose.services["keyrun-1"]?.environment?.[`${setting}_FILE`] ?? "";
  return path.replace("/run/secrets/", "");
}
