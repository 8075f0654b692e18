import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import type { FleetMember } from "./fleet.ts";
import { freePort } from "./free-port.ts";
import { repository, type Settings, statusOf } from "./keyrun-process.ts";

/** Debian's HAProxy in front of a fleet, which asks each member for `/readyz`. */
export interface HaProxy {
  /** HTTP/1.1 with connections that are kept, on both sides. */
  readonly url: string;
  /** HTTP/2 without TLS, on both sides: also for gRPC. */
  readonly h2Url: string;
  /** HTTP/1.1 to the internal listeners. */
  readonly internalUrl: string;
  /** Resolves once it sends requests to this member, over each of the three. */
  untilUp(place: number): Promise<void>;
  close(): Promise<void>;
}

/** HAProxy with the file of compose.yaml, in front of two members. */
export interface ShippedHaProxy {
  /** HTTP/1.1, HTTP/2 without TLS, and gRPC. */
  readonly url: string;
  /** Resolves once it sends requests to this member, or says that it is down, or that it drains. */
  until(place: 0 | 1, state: "UP" | "DOWN" | "NOLB"): Promise<void>;
  /** How often it took this member for down so far. */
  downs(place: 0 | 1): number;
  close(): Promise<void>;
}

type Addresses = Pick<FleetMember, "publicUrl" | "internalUrl">;

export async function startHaProxy(folder: string, members: readonly Addresses[]): Promise<HaProxy> {
  const [http1, http2, internal] = [await freePort(), await freePort(), await freePort()];
  const path = join(folder, "haproxy.cfg");
  const adminPath = join(folder, "haproxy.sock");
  writeFileSync(path, configuration({ http1, http2, internal }, { members, adminPath }));
  const url = `http://127.0.0.1:${http1}`;
  const { close } = await runHaProxy([path], { url });
  return {
    url,
    h2Url: `http://127.0.0.1:${http2}`,
    internalUrl: `http://127.0.0.1:${internal}`,
    async untilUp(place) {
      while ((await countOf(adminPath, { name: `s${place}`, state: "UP" })) < 3) await pause(50);
    },
    close,
  };
}

export async function startShippedHaProxy(
  folder: string,
  [first, second]: readonly [Addresses, Addresses],
): Promise<ShippedHaProxy> {
  const address = `127.0.0.1:${await freePort()}`;
  const adminPath = join(folder, "haproxy.sock");
  const path = join(folder, "admin.cfg");
  writeFileSync(path, `global\n${adminSocket(adminPath)}\n`);
  const url = `http://${address}`;
  const env = {
    BALANCER_ADDRESS: address,
    KEYRUN_1_ADDRESS: new URL(first.publicUrl).host,
    KEYRUN_2_ADDRESS: new URL(second.publicUrl).host,
  };
  const { words, close } = await runHaProxy([join(repository, "deploy/haproxy.cfg"), path], { url, env });
  return {
    url,
    async until(place, state) {
      while ((await countOf(adminPath, { name: `keyrun-${place + 1}`, state })) < 2) await pause(50);
    },
    downs: (place) => words().split(`Server http/keyrun-${place + 1} is DOWN`).length - 1,
    close,
  };
}

/** Resolves once a member behind it is ready. */
async function runHaProxy(paths: readonly string[], { url, env }: { url: string; env?: Settings }) {
  const child = spawn("haproxy", ["-db", ...paths.flatMap((path) => ["-f", path])], {
    stdio: ["ignore", "ignore", "pipe"],
    env: { ...process.env, ...env },
  });
  process.once("exit", () => child.kill("SIGKILL"));
  let words = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    words += text;
  });
  while ((await statusOf(`${url}/readyz`)) !== 200) {
    if (child.exitCode !== null) throw new Error(`HAProxy ended: ${words}`);
    await pause(25);
  }
  return {
    words: () => words,
    async close() {
      const gone = once(child, "exit");
      child.kill("SIGTERM");
      await gone;
    },
  };
}

interface Ports {
  readonly http1: number;
  readonly http2: number;
  readonly internal: number;
}

/** In how many backends the server has this state. */
async function countOf(adminPath: string, { name, state }: { name: string; state: string }): Promise<number> {
  const socket = connect(adminPath);
  socket.end("show stat\n");
  const rows = (await text(socket)).split("\n").map((row) => row.split(","));
  const status = rows[0]?.indexOf("status") ?? -1;
  return rows.filter((row) => row[1] === name && row[status]?.startsWith(state)).length;
}

function adminSocket(path: string): string {
  return `  stats socket ${path} mode 600 level operator`;
}

interface Configured {
  readonly members: readonly Addresses[];
  readonly adminPath: string;
}

/**
 * Its checks are quicker than those of a real balancer need to be. But they wait for the answer of
 * a member that a busy machine starves: else all members may be down for it at once.
 */
function configuration({ http1, http2, internal }: Ports, { members, adminPath }: Configured): string {
  const check = (publicUrl: string) =>
    `check port ${portOf(publicUrl)} check-proto h1 inter 250ms fall 1 rise 1`;
  const servers = (of: "publicUrl" | "internalUrl", options = "") =>
    members.map(
      (member, place) =>
        `  server s${place} 127.0.0.1:${portOf(member[of])} ${options}${check(member.publicUrl)}`,
    );
  return [
    "global",
    "  maxconn 4000",
    adminSocket(adminPath),
    "defaults",
    "  mode http",
    "  timeout connect 2s",
    "  timeout client 70s",
    "  timeout server 60s",
    "  timeout check 10s",
    "  option httpchk GET /readyz",
    "  option redispatch 1",
    "  retries 3",
    "  retry-on conn-failure",
    `listen http1`,
    `  bind 127.0.0.1:${http1}`,
    ...servers("publicUrl"),
    `listen http2`,
    `  bind 127.0.0.1:${http2} proto h2`,
    ...servers("publicUrl", "proto h2 "),
    `listen internal`,
    `  bind 127.0.0.1:${internal}`,
    ...servers("internalUrl"),
    "",
  ].join("\n");
}

function portOf(url: string): string {
  return new URL(url).port;
}
