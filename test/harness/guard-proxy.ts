import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "./free-port.ts";
import { repository, statusOf } from "./keyrun-process.ts";
import { programsMissing } from "./needs.ts";
import { until } from "./until.ts";

/** A proxy with its file of deploy/guard/. */
export interface GuardProxy {
  readonly port: number;
  readonly url: string;
  close(): Promise<void>;
}

interface Guarding {
  /** Where the files go that the proxy needs. */
  readonly folder: string;
  /** The hosts and ports of Keyrun's public listeners: of several only in nginx. */
  readonly keyruns: readonly [string, ...string[]];
  /** The host and port of the service. */
  readonly service: string;
}

interface Placed extends Guarding {
  readonly port: number;
}

/** What starts a proxy, after its files are written. */
type Command = readonly [program: string, ...args: string[]];

/** What Debian has no package of: `.ci/run` puts it there. */
const ofPyPI = {
  traefik: join(repository, "node_modules/.cache/keyrun-proxies/bin/traefik"),
  envoy: join(repository, "node_modules/.cache/keyrun-proxies/envoy/_bin/envoy"),
};

const proxies = {
  nginx({ folder, port, keyruns, service }) {
    const servers = keyruns.map((each) => `server ${each};`).join(" ");
    const guard = fileOf("nginx.conf", [
      ["server 127.0.0.1:8080;", servers],
      ["127.0.0.1:9000", service],
      ["listen 8000;", `listen 127.0.0.1:${port};`],
    ]);
    // What Debian's nginx.conf has around the files of /etc/nginx/conf.d/.
    const own = `daemon off; pid ${folder}/pid; error_log stderr; events {}\n`;
    const temp = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
      (name) => `${name}_temp_path ${folder}/${name};`,
    );
    const path = join(folder, "nginx.conf");
    writeFileSync(path, `${own}http { access_log off; ${temp.join(" ")}\n${guard} }\n`);
    return ["nginx", "-e", "stderr", "-p", folder, "-c", path];
  },
  caddy({ folder, port, keyruns: [keyrun], service }) {
    const guard = fileOf("Caddyfile", [
      ["127.0.0.1:8080", keyrun],
      ["127.0.0.1:9000", service],
      [/^:8000 /m, `:${port} `],
    ]);
    const path = join(folder, "Caddyfile");
    writeFileSync(path, `{\n\tadmin off\n}\n${guard}`);
    return ["caddy", "run", "--adapter", "caddyfile", "--config", path];
  },
  async haproxy({ folder, port, keyruns: [keyrun], service }) {
    const within = `127.0.0.1:${await freePort()}`;
    const script = join(folder, "keyrun.lua");
    writeFileSync(script, fileOf("keyrun.lua", [["127.0.0.1:8001", within]]));
    const guard = fileOf("haproxy.cfg", [
      ["/etc/haproxy/keyrun.lua", script],
      ["bind 127.0.0.1:8001", `bind ${within}`],
      ["127.0.0.1:8080", keyrun],
      ["127.0.0.1:9000", service],
      ["bind :8000", `bind 127.0.0.1:${port}`],
    ]);
    const path = join(folder, "haproxy.cfg");
    writeFileSync(path, guard);
    return ["haproxy", "-db", "-f", path];
  },
  traefik({ folder, port, keyruns: [keyrun], service }) {
    const path = join(folder, "keyrun.yaml");
    const guard = fileOf("traefik.yaml", [
      ["127.0.0.1:8080", keyrun],
      ["127.0.0.1:9000", service],
      ["address=:8000", `address=127.0.0.1:${port}`],
      ["/etc/traefik/keyrun.yaml", path],
    ]);
    writeFileSync(path, guard);
    // The options stand in the comment at the top.
    return [ofPyPI.traefik, ...[...guard.matchAll(/^# +(--\S+)/gm)].map(([, option = ""]) => option)];
  },
  envoy({ folder, port, keyruns: [keyrun], service }) {
    const guard = fileOf("envoy.yaml", [
      ["127.0.0.1:8080", keyrun],
      ["port_value: 8080", `port_value: ${portOf(keyrun)}`],
      ["port_value: 9000", `port_value: ${portOf(service)}`],
      ["address: 0.0.0.0, port_value: 8000", `address: 127.0.0.1, port_value: ${port}`],
    ]);
    const path = join(folder, "envoy.yaml");
    writeFileSync(path, guard);
    return [ofPyPI.envoy, "--disable-hot-restart", "--concurrency", "2", "-c", path];
  },
} satisfies Record<string, (place: Placed) => Command | Promise<Command>>;

export type GuardProxyName = keyof typeof proxies;

export const guardProxyNames = Object.keys(proxies) as GuardProxyName[];

/** What this machine lacks for it; undefined if nothing. */
export function guardProxyMissing(name: GuardProxyName): string | undefined {
  if (name !== "traefik" && name !== "envoy") return programsMissing(name);
  return existsSync(ofPyPI[name]) ? undefined : `not installed: ${name}`;
}

/** Resolves once it asks Keyrun. */
export async function startGuardProxy(name: GuardProxyName, guarding: Guarding): Promise<GuardProxy> {
  const port = await freePort();
  const { folder } = guarding;
  const [program, ...args] = await proxies[name]({ ...guarding, port });
  const child = spawn(program, args, {
    env: { ...process.env, HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder },
    stdio: ["ignore", "pipe", "pipe"],
  });
  process.once("exit", () => child.kill("SIGKILL"));
  let words = "";
  for (const output of [child.stdout, child.stderr])
    output.setEncoding("utf8").on("data", (part: string) => {
      words += part;
    });
  const url = `http://127.0.0.1:${port}`;
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`${name} ended: ${words}`);
    return (await statusOf(url)) === 401;
  });
  return {
    ...{ port, url },
    async close() {
      if (child.exitCode !== null) return;
      const gone = once(child, "exit");
      child.kill();
      await gone;
    },
  };
}

/** A file of deploy/guard/ with other addresses. Each of them must be there. */
function fileOf(name: string, places: readonly (readonly [string | RegExp, string])[]): string {
  let text = readFileSync(join(repository, "deploy/guard", name), "utf8");
  for (const [from, to] of places) {
    const changed = text.replace(typeof from === "string" ? new RegExp(escaped(from), "g") : from, () => to);
    if (changed === text) throw new Error(`deploy/guard/${name} does not have ${from}`);
    text = changed;
  }
  return text;
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

function portOf(host: string): string {
  return new URL(`http://${host}`).port;
}
