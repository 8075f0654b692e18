import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/**
 * Counts the open connections of a listening port, as Linux sees them: accepted, and not closed by
 * the process. A connection that the other end has reset is not counted.
 */
export function openConnections(port: number): number {
  return ["/proc/net/tcp", "/proc/net/tcp6"].flatMap(rowsOf).filter((row) => row.port === port && isHeld(row))
    .length;
}

/**
 * All sockets that this process has open, reset ones too: what is not closed stays in this number.
 */
export function openSockets(): number {
  return readdirSync("/proc/self/fd").filter(isSocket).length;
}

/**
 * After how many milliseconds of silence Linux asks whether the other end is still there, for each
 * connection of this machine that ends at one of the ports, by the end that asks: `server`, whose
 * own port it is, or `client`. An end that never asks is left out.
 */
export function keepAliveMs(port: number, end: "server" | "client"): number[] {
  const rows = ["/proc/net/tcp", "/proc/net/tcp6"].flatMap(rowsOf).filter(isHeld);
  const own = rows.filter((row) => (end === "server" ? row.port : row.peerPort) === port);
  return own.flatMap(({ keepAlive }) => (keepAlive === undefined ? [] : [keepAlive]));
}

interface TcpRow {
  readonly port: number;
  readonly peerPort: number;
  /** What is left of the time until the keep-alive of TCP asks; undefined if it is off. */
  readonly keepAlive: number | undefined;
  readonly state: string;
  readonly inode: string;
}

/**
 * The rows of a table of sockets, whose form is in the kernel's
 * `Documentation/networking/proc_net_tcp.rst`.
 */
function rowsOf(table: string): TcpRow[] {
  const lines = readFileSync(table, "utf8").trim().split("\n").slice(1);
  return lines.map((line) => {
    const [, local = "", peer = "", state = "", , timer = "", , , , inode = ""] = line.trim().split(/\s+/);
    const [kind, left = ""] = timer.split(":");
    const keepAlive = kind === keepAliveTimer ? Number.parseInt(left, 16) * msPerTick : undefined;
    return { port: portOf(local), peerPort: portOf(peer), state, inode, keepAlive };
  });
}

function portOf(address: string): number {
  return Number.parseInt(address.slice(address.lastIndexOf(":") + 1), 16);
}

const keepAliveTimer = "02";
const msPerTick = 10;

const listening = "0A";

/** A socket that no process has taken yet, or that its process has closed, has no inode. */
function isHeld({ state, inode }: TcpRow): boolean {
  return state !== listening && inode !== "0";
}

function isSocket(fd: string): boolean {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`).startsWith("socket:");
  } catch {
    // The descriptor of the folder that was just read: it is closed again.
    return false;
  }
}
