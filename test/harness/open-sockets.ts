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

interface TcpRow {
  readonly port: number;
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
    const [, local = "", , state = "", , , , , , inode = ""] = line.trim().split(/\s+/);
    return { port: Number.parseInt(local.slice(local.lastIndexOf(":") + 1), 16), state, inode };
  });
}

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
