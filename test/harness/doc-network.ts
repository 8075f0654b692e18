import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { freePort } from "./free-port.ts";
import type { Places } from "./page-text.ts";

/** Where the addresses of a page lead to. */
export interface DocNetwork {
  /** The command that a shell is started by, to be in this network. */
  readonly enter: readonly string[];
  /** The addresses on the page, with those that are used instead. */
  readonly places: Places;
  /** The line that starts a server, as it is typed. */
  serverLine(line: string): string;
  close(): Promise<void>;
}

/** A network of its own, where the machine allows that: there every port of the page is free. */
export async function openDocNetwork(): Promise<DocNetwork> {
  return (await openOwnNetwork()) ?? substitutePorts();
}

async function openOwnNetwork(): Promise<DocNetwork | undefined> {
  const up = ["sh", "-c", "ip link set lo up && echo up && exec cat"];
  if (spawnSync("nsenter", ["--version"], { stdio: "ignore" }).status !== 0) return undefined;
  // The namespace lives as long as its first process, which ends with this one's pipe.
  const holder = spawn("unshare", ["--map-root-user", "--net", ...up], {
    stdio: ["pipe", "pipe", "ignore"],
  });
  if (!(await saysUp(holder))) return undefined;
  const of = ["--target", String(holder.pid), "--user", "--net", "--preserve-credentials", "--"];
  return {
    enter: ["nsenter", ...of],
    places: new Map(),
    serverLine: (line) => line,
    async close() {
      holder.stdin?.end();
      await once(holder, "close");
    },
  };
}

function saysUp(holder: ChildProcess): Promise<boolean> {
  return new Promise((resolve) => {
    holder.stdout?.once("data", () => resolve(true));
    holder.once("error", () => resolve(false));
    holder.once("close", () => resolve(false));
  });
}

/**
 * The network of this machine, on which other programs may use the ports of the page. Servers get
 * free ports instead, the same for the whole story, by settings before the line that starts them.
 * All that is printed, and all other lines, use them in place of the page's.
 */
export async function substitutePorts(more: Places = new Map()): Promise<DocNetwork> {
  const [http, grpc, app] = [await freePort(), await freePort(), await freePort()];
  const [secondHttp, secondGrpc] = [await freePort(), await freePort()];
  const [thirdHttp, thirdGrpc] = [await freePort(), await freePort()];
  return {
    enter: [],
    places: new Map([
      ["127.0.0.1:8080", `127.0.0.1:${http}`],
      ["127.0.0.1:8081", `127.0.0.1:${grpc}`],
      ["127.0.0.1:9000", `127.0.0.1:${app}`],
      ["127.0.0.1:8090", `127.0.0.1:${secondHttp}`],
      ["127.0.0.1:8091", `127.0.0.1:${secondGrpc}`],
      ["127.0.0.1:8100", `127.0.0.1:${thirdHttp}`],
      ["127.0.0.1:8101", `127.0.0.1:${thirdGrpc}`],
      ["KEYRUN_PORT=8090 KEYRUN_GRPC_PORT=8091", `KEYRUN_PORT=${secondHttp} KEYRUN_GRPC_PORT=${secondGrpc}`],
      ["KEYRUN_PORT=8100 KEYRUN_GRPC_PORT=8101", `KEYRUN_PORT=${thirdHttp} KEYRUN_GRPC_PORT=${thirdGrpc}`],
      ...more,
    ]),
    // A page that names ports of its own, for further instances, keeps them.
    serverLine: (line) =>
      `KEYRUN_PORT=\${KEYRUN_PORT:-${http}} KEYRUN_GRPC_PORT=\${KEYRUN_GRPC_PORT:-${grpc}} PORT=${app} ${line}`,
    close: async () => {},
  };
}
