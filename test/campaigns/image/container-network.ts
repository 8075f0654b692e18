import { execFileSync, spawnSync } from "node:child_process";
import { randomBytes, randomInt } from "node:crypto";
import { startNameServer } from "../../harness/name-server.ts";

/**
 * A network between containers and this process, as a bridge of Docker is. A name server at
 * `hostAddress` knows the containers by their names.
 */
export interface ContainerNetwork {
  /** This process, as the containers reach it. */
  readonly hostAddress: string;
  /** Makes the network of one container, with an address of its own, which has all these names. */
  attach(names: readonly string[]): AttachedNetwork;
  /** Gives a name to this process. */
  nameHost(name: string): void;
  close(): Promise<void>;
}

export interface AttachedNetwork {
  readonly address: string;
  /** The file that `nsenter --net=` takes. */
  readonly path: string;
}

/** Needs root and iproute2. The addresses are from the range that is kept for tests of networks. */
export async function openContainerNetwork(): Promise<ContainerNetwork> {
  const id = randomBytes(4).toString("hex");
  const bridge = `kr${id}`;
  const prefix = freePrefix();
  const hostAddress = `${prefix}.1`;
  const spaces: string[] = [];
  const remove = () => {
    for (const space of spaces.splice(0)) spawnSync("ip", ["netns", "del", space]);
    spawnSync("ip", ["link", "del", bridge], { stdio: "ignore" });
  };
  process.once("exit", remove);
  ip("link", "add", bridge, "type", "bridge");
  ip("addr", "add", `${hostAddress}/24`, "dev", bridge);
  ip("link", "set", bridge, "up");
  const names = await startNameServer({}, { host: hostAddress, port: 53 });
  const name = (each: string, address: string) => names.set(each, [{ address, ttlS: 1 }]);
  return {
    hostAddress,
    attach(containerNames) {
      const place = spaces.length;
      const [space, cable] = [`kr${id}-${place}`, `kr${id}${place}`];
      const address = `${prefix}.${place + 2}`;
      ip("netns", "add", space);
      spaces.push(space);
      ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", space);
      ip("link", "set", cable, "master", bridge, "up");
      ip("-n", space, "addr", "add", `${address}/24`, "dev", "eth0");
      for (const device of ["lo", "eth0"]) ip("-n", space, "link", "set", device, "up");
      for (const each of containerNames) name(each, address);
      return { address, path: `/run/netns/${space}` };
    },
    nameHost: (each) => name(each, hostAddress),
    async close() {
      await names[Symbol.asyncDispose]();
      process.off("exit", remove);
      remove();
    },
  };
}

function freePrefix(): string {
  const used = execFileSync("ip", ["-o", "addr"], { encoding: "utf8" });
  for (;;) {
    const prefix = `198.18.${randomInt(256)}`;
    if (!used.includes(` ${prefix}.`)) return prefix;
  }
}

function ip(...args: string[]): void {
  execFileSync("ip", args, { stdio: ["ignore", "ignore", "pipe"] });
}
