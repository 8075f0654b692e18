import { expect, test } from "vitest";
import { closedAtEnd } from "../../harness/closed-at-end.ts";
import {
  cancelFrame,
  dataFrame,
  frame,
  framesIn,
  frameTypes,
  h2Opening,
  headersFrame,
} from "../../harness/h2-frames.ts";
import { startKeyrun } from "../../harness/keyrun.ts";
import { type RawSocket, rawSocket } from "../../harness/raw-socket.ts";

const keyrun = closedAtEnd(await startKeyrun());

const reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const watch = "/keyrun.v1.KeyService/WatchKeys";
const message = "\0\0\0\0\x06\x0a\x04demo";

/** How much of the request's message arrives before the peer goes. */
const parts = { nothing: "", "a part of a message": message.slice(0, -2), "a message": message };
const ways: Readonly<Record<string, (client: RawSocket) => void>> = {
  "resets its stream": (client) => client.send(cancelFrame(1)),
  "resets its stream without an error": (client) => client.send(cancelFrame(1, 0)),
  "resets its stream by INTERNAL_ERROR": (client) => client.send(cancelFrame(1, 2)),
  "closes its connection": ({ socket }) => socket.destroy(),
  "resets its connection": ({ socket }) => socket.resetAndDestroy(),
};
const cases = [reflection, watch].flatMap((path) =>
  ["application/grpc", "application/grpc-web", "application/connect+proto"].flatMap((type) =>
    Object.keys(parts).flatMap((part) => Object.keys(ways).map((way) => [type, path, part, way] as const)),
  ),
);

test.each(cases)(
  "a peer of %s on %s that has sent %s and %s is CANCELLED, at debug",
  async (type, path, part, way) => {
    const before = keyrun.logLines.length;
    const client = rawSocket({ port: Number(new URL(keyrun.internalUrl).port) });
    const head = [
      [":method", "POST"],
      [":scheme", "http"],
      [":path", path],
      [":authority", "a"],
      ["content-type", type],
      ["connect-protocol-version", "1"],
      ["authorization", `Bearer ${keyrun.serviceToken}`],
    ] as const;
    const opened = [h2Opening, headersFrame(1, head, { hasBody: true })];
    client.send(Buffer.concat([...opened, dataFrame(1, parts[part as keyof typeof parts]), ping]));
    // The call is running once the ping behind it is answered.
    await client.until((heard) =>
      framesIn(heard).some(({ type, flags }) => type === frameTypes.ping && flags === 1),
    );
    ways[way]?.(client);
    const lines = () => keyrun.logLines.slice(before).map((line) => JSON.parse(line));
    const refused = () => lines().filter(({ reason }) => reason !== undefined);
    await expect.poll(() => refused().length).toBeGreaterThan(0);
    expect(refused()).toMatchObject([{ reason: "CANCELLED" }]);
    expect(lines().filter(({ level }) => level !== "debug")).toEqual([]);
    client.socket.destroy();
  },
);

const ping = frame({ type: frameTypes.ping, flags: 0, stream: 0 }, Buffer.alloc(8));
