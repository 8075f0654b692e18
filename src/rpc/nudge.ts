/**
 * Wakes the other instances of a fleet, so that they read the control document now and not with
 * their next heartbeat.
 */

import { type Client, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { FleetService } from "#gen/keyrun/v1/fleet_service_pb.ts";

export interface NudgeParts {
  /** The credential that other instances take. */
  readonly token: string;
  /** The same until it is renewed. Undefined: the internal listeners speak plaintext. */
  readonly tls: () => NudgeTls | undefined;
  readonly msMax: number;
  /** Called with an address that was not reached, and why. */
  readonly onFailed: (address: string, cause: unknown) => void;
}

interface NudgeTls {
  readonly cert: string;
  readonly key: string;
  readonly clientCa: string;
}

/** Asks other instances, by the addresses of their internal listeners, to read the changes. */
export interface Nudge {
  /**
   * Sends one nudge to each address, and waits for none. Where one is under way to an address, the
   * next one follows it, and those between them are left out.
   */
  send(addresses: readonly string[]): void;
}

/** Keeps one connection for each address of the last call. */
export function createNudge(parts: NudgeParts): Nudge {
  let targets = new Map<string, Target>();
  return {
    send(addresses) {
      const tls = parts.tls();
      const targetOf = (address: string) => {
        const known = targets.get(address);
        return known?.tls === tls && known ? known : createTarget(parts, address, tls);
      };
      targets = new Map(addresses.map((address) => [address, targetOf(address)]));
      for (const target of targets.values()) target.nudge();
    },
  };
}

interface Target {
  readonly tls: NudgeTls | undefined;
  nudge(): void;
}

function createTarget(parts: NudgeParts, address: string, tls: NudgeTls | undefined): Target {
  const client = clientOf(parts.token, address, tls);
  let isUnderWay = false;
  let isWanted = false;

  async function send(): Promise<void> {
    isUnderWay = true;
    while (isWanted) {
      isWanted = false;
      await client
        .nudge({}, { timeoutMs: parts.msMax })
        .catch((cause: unknown) => parts.onFailed(address, cause));
    }
    isUnderWay = false;
  }

  return {
    tls,
    nudge() {
      isWanted = true;
      if (!isUnderWay) void send();
    },
  };
}

function clientOf(token: string, address: string, tls: NudgeTls | undefined): Client<typeof FleetService> {
  const transport = createConnectTransport({
    baseUrl: `${tls ? "https" : "http"}://${address}`,
    httpVersion: "2",
    idleConnectionTimeoutMs,
    ...(tls && { nodeOptions: { cert: tls.cert, key: tls.key, ca: tls.clientCa } }),
    interceptors: [
      (next) => (request) => {
        request.header.set("authorization", `Bearer ${token}`);
        return next(request);
      },
    ],
  });
  return createClient(FleetService, transport);
}

/** A quiet fleet keeps no connections between its instances. */
const idleConnectionTimeoutMs = 60_000;
