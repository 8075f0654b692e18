import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { FleetMember } from "./fleet.ts";
import { keptPort } from "./free-port.ts";
import { statusOf } from "./keyrun-process.ts";

/** Debian's HAProxy in front of a fleet, which asks each member for `/readyz`. */
export interface HaProxy {
  /** HTTP/1.1 with connections that are kept, on both sides. */
  readonly url: string;
  /** HTTP/2 without TLS, on both sides: also for gRPC. */
  readonly h2Url: string;
  /** HTTP/1.1 to the internal listeners. */
  readonly internalUrl: string;
  close(): Promise<void>;
}

type Addresses = Pick<FleetMember, "publicUrl" | "internalUrl">;

export async function startHaProxy(folder: string, members: readonly Addresses[]): Promise<HaProxy> {
  const [http1, http2, internal] = [await keptPort(), await keptPort(), await keptPort()];
  const path = join(folder, "haproxy.cfg");
  writeFileSync(path, configuration({ http1, http2, internal }, members));
  const child = spawn("haproxy", ["-db", "-f", path], { stdio: ["ignore", "ignore", "pipe"] });
  process.once("exit", () => child.kill("SIGKILL"));
  let words = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    words += text;
  });
  const url = `http://127.0.0.1:${http1}`;
  while ((await statusOf(`${url}/readyz`)) !== 200) {
    if (child.exitCode !== null) throw new Error(`HAProxy ended: ${words}`);
  }
  return {
    url,
    h2Url: `http://127.0.0.1:${http2}`,
    internalUrl: `http://127.0.0.1:${internal}`,
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

/** Its checks are quicker than those of a real balancer need to be. */
function configuration({ http1, http2, internal }: Ports, members: readonly Addresses[]): string {
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
    "defaults",
    "  mode http",
    "  timeout connect 2s",
    "  timeout client 70s",
    "  timeout server 60s",
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
