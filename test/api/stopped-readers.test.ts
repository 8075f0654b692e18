import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { connect } from "node:http2";
import type { Socket } from "node:net";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import type { BackendRecord } from "#src/apps/app-store.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { http2 } from "../harness/exchange.ts";
import { startKeyrun } from "../harness/keyrun.ts";
import { isStreamed, type RunProtocol, runProtocols } from "../harness/protocols.ts";
import { type AppKind, appKinds, kindOf, type Talk } from "../harness/streamed-apps.ts";

const readers = 8;
/** What may wait in Keyrun for one stream, beside the piece in hand and the one behind it. */
const waitingBytesMax = 131_072;
/** What each caller takes before it stops: many small pieces. */
const takenBytes = 500_000;
/** By how much an app's form of messages and frames may be longer than its caller's. */
const framing = 1.03;

let apps = 0;
const sockets = new Set<Socket>();
const onSocket = (message: unknown) => void sockets.add((message as { socket: Socket }).socket);

subscribe("net.client.socket", onSocket);
const keyrun = closedAtEnd(await startKeyrun({ settings: { KEYRUN_PLAN_LIMITS: "enterprise=100000" } }));
const authorization = `Bearer ${(await keyrun.newKey(await keyrun.newTeam(Plan.ENTERPRISE))).value}`;

afterAll(async () => {
  unsubscribe("net.client.socket", onSocket);
});

const kinds = Object.entries(appKinds).filter(([, { isWhole }]) => !isWhole);
// Over HTTP/1.1 the kernel takes megabytes for a reader that stops. Over HTTP/2 it is the reader
// who says how much it takes, so that all else that was read of the app waits in Keyrun.
const protocols = runProtocols.public.filter((protocol) => isStreamed(protocol) && protocol.http === http2);

describe.each(kinds)("%s", (_, kind: AppKind) => {
  describe.each(protocols.map((protocol) => [protocol.name, protocol] as const))(
    "to %s",
    (_name, protocol) => {
      test.each([1_000, 200_000])(
        "a reader that stops holds no more the more it has taken, in pieces of %i bytes",
        async (pieceBytes) => {
          const piece = "x".repeat(pieceBytes);
          const said = new Map<Talk, "saying" | "stalled">();
          await using server = await kind.serve(async (talk) => {
            let isGone = false;
            talk.gone.then(() => {
              isGone = true;
            });
            while (!isGone) {
              said.set(talk, "saying");
              if (talk.say(piece)) continue;
              said.set(talk, "stalled");
              await Promise.race([talk.drained(), talk.gone]);
            }
          });
          apps += 1;
          const appId = `endless-${apps}`;
          await keyrun.apps.createApp({ app: { id: appId, backend: { kind: kindOf(server.backend) } } });
          sockets.clear();
          await openUnread(protocol, appId);
          await expect.poll(() => said.size).toBe(readers);

          const port = portOf(server.backend);
          const taken = () => {
            const own = [...sockets].filter((socket) => socket.remotePort === port);
            return own.reduce((bytes, socket) => bytes + socket.bytesRead, 0);
          };
          let before = -1;
          let still = 0;
          await expect
            .poll(() => {
              still = before === taken() ? still + 1 : 0;
              before = taken();
              return still;
            })
            .toBeGreaterThan(stillPollsMin);
          expect([...said.values()]).toEqual(Array(readers).fill("stalled"));
          expect(taken()).toBeGreaterThan(0);
          const waitingBytes = taken() / readers - framing * (takenBytes + 2 * pieceBytes);
          expect(waitingBytes).toBeLessThanOrEqual(waitingBytesMax);
        },
      );
    },
  );
});

/** So many looks, each 20 ms after the one before, must see nothing new. */
const stillPollsMin = 10;

/** Opens streams on one connection, and takes nothing of their bodies. */
async function openUnread(protocol: RunProtocol, appId: string): Promise<void> {
  const session = connect(keyrun.publicUrl, { settings: { initialWindowSize: takenBytes } });
  session.on("error", () => undefined);
  onTestFinished(() => session.destroy());
  await once(session, "remoteSettings");
  const { path, headers, body } = protocol.ask(protocol.method, { json: { appId, text: "x" } });
  for (let opened = 0; opened < readers; opened += 1) {
    const stream = session.request({ ":method": "POST", ":path": path, ...headers, authorization });
    stream.on("error", () => undefined).end(body);
  }
}

function portOf(backend: BackendRecord): number {
  if (backend.kind === "echo" || backend.kind === "guard") throw new Error("it has no server");
  return Number(new URL(backend.kind === "http" ? backend.url : `http://${backend.target}`).port);
}
