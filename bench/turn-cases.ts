// What is sent for `npm run bench -- --only turns`, by every way in.
import { type ClientHttp2Session, connect as connectHttp2 } from "node:http2";
import { setTimeout as sleep } from "node:timers/promises";
import { create, type DescMethod, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { ServerReflectionRequestSchema } from "#gen/grpc/reflection/v1/reflection_pb.ts";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { AuditService } from "#gen/keyrun/v1/audit_service_pb.ts";
import { KeyService, UsageStep } from "#gen/keyrun/v1/key_service_pb.ts";
import { RunService } from "#gen/keyrun/v1/run_service_pb.ts";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import { grpcFrame } from "./bare-grpc.ts";
import { loadHttp1 } from "./load.ts";
import type { StartedKeyrun } from "./start-keyrun.ts";
import { openHttp1, type Sent, sendGrpc, sendHttp1 } from "./turn-callers.ts";
import { appAnswers, jsonBodies, jsonOfApp, protoBodies } from "./turn-requests.ts";
import { filled } from "./turn-store.ts";

export interface TurnCase {
  readonly group: string;
  readonly name: string;
  /** Instead of the number that was asked for. */
  readonly rounds?: number;
  /** Does what is not measured, and returns what is: it resolves with what came of it. */
  prepare(): Promise<() => Promise<string>>;
  end?(): Promise<void>;
}

export interface TurnParts extends StartedKeyrun {
  /** The values of all keys of the team `busy`. */
  readonly values: readonly string[];
  /** An app that answers a path with what `appAnswers` has for it. */
  readonly appUrl: string;
}

export async function createTurnCases(parts: TurnParts): Promise<readonly TurnCase[]> {
  const { port, internalPort, serviceToken, keys, apps, appUrl, values } = parts;
  const { value } = await keys.createKey({ teamId: "used" });
  await apps.createApp({ app: { id: "echo", backend: { kind: { case: "echo", value: {} } } } });
  for (const path of appAnswers.keys()) {
    await apps.createApp({
      app: { id: path, backend: { kind: { case: "http", value: { url: `${appUrl}/${path}` } } } },
    });
  }
  const bearer = { authorization: `Bearer ${value}` };
  const service = { authorization: `Bearer ${serviceToken}` };
  const json = { "content-type": "application/json" };
  // Keyrun closes a session that was idle for a minute.
  let session: ClientHttp2Session | undefined;
  const openSession = () => {
    if (session === undefined || session.closed || session.destroyed) {
      session = connectHttp2(`http://127.0.0.1:${internalPort}`).on("error", () => {});
      session.unref();
    }
    return session;
  };

  const rest = (path: string, sent: Sent) => () => sendHttp1(port, path, sent);
  const connect =
    (method: DescMethod, body: Buffer, headers: Sent["headers"] = service) =>
    () =>
      sendHttp1(internalPort, pathOf(method), { method: "POST", body, headers: { ...json, ...headers } });
  const grpc =
    (method: string, body: Buffer, headers: Sent["headers"] = service) =>
    () =>
      sendGrpc(openSession(), method, { body, headers });
  const call = <M extends DescMethod>(method: M, message: MessageInitShape<M["input"]>) =>
    grpc(pathOf(method), grpcFrame(toBinary(method.input, create(method.input, message))));
  const of = (group: string, name: string, send: () => Promise<string>): TurnCase => ({
    group,
    name,
    prepare: async () => send,
  });

  const post = (path: string, body: Buffer, headers = {}) =>
    rest(path, { method: "POST", body, headers: { ...bearer, ...json, ...headers } });
  const cases: TurnCase[] = [];
  for (const [name, body] of jsonBodies()) {
    cases.push(of("JSON over REST", name, post("/api/apps/echo/run", body)));
    const ofConnect = Buffer.concat([Buffer.from('{"appId":"echo",'), body.subarray(1)]);
    cases.push(of("JSON over Connect", name, connect(RunService.method.runApp, ofConnect, bearer)));
    cases.push(of("JSON of CreateKey", name, connect(KeyService.method.createKey, body)));
  }
  cases.push(of("JSON of CreateApp", "empty headers", connect(AppService.method.createApp, jsonOfApp)));
  cases.push(
    of("REST", "a leak report of 1 MiB", post("/api/keys/revoke-leaked", [...jsonBodies().values()][0]!)),
  );
  for (const [name, body] of protoBodies()) {
    cases.push(of("gRPC RunApp", name, grpc(pathOf(RunService.method.runApp), grpcFrame(body), bearer)));
    cases.push(of("gRPC CreateKey", name, grpc(pathOf(KeyService.method.createKey), grpcFrame(body))));
    cases.push(of("gRPC Health/Check", name, grpc("/grpc.health.v1.Health/Check", grpcFrame(body), {})));
    const proto = { "content-type": "application/proto" };
    cases.push(of("Connect RunApp", name, connect(RunService.method.runApp, body, { ...bearer, ...proto })));
    const ofApp = grpcFrame(asHeaders(body));
    cases.push(of("gRPC CreateApp", name, grpc(pathOf(AppService.method.createApp), ofApp)));
  }

  const reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
  const questions = {
    "a file": { messageRequest: { case: "fileContainingSymbol", value: "keyrun.v1.KeyService" } },
    "the list of services": { messageRequest: { case: "listServices", value: "" } },
    "an unknown symbol": { messageRequest: { case: "fileContainingSymbol", value: "a" } },
    "an extension": { messageRequest: { case: "fileContainingExtension", value: {} } },
  } as const;
  for (const [name, message] of Object.entries(questions)) {
    const frame = grpcFrame(
      toBinary(ServerReflectionRequestSchema, create(ServerReflectionRequestSchema, message)),
    );
    const times = Math.floor(1_048_576 / frame.length);
    const body = Buffer.concat(Array.from({ length: times }, () => frame));
    cases.push(of("reflection", `${name}, ${times} times`, grpc(reflection, body, {})));
  }

  const header = "a,".repeat(7_000);
  const big = { teamId: "big", pageSize: 100 };
  const { listKeys, getUsage } = KeyService.method;
  cases.push(
    of(
      "REST",
      "a query of 14 KB",
      post(`/api/apps/echo/run?${"a=b&".repeat(3_500)}`, Buffer.from('{"text":"a"}')),
    ),
    of(
      "REST",
      "a path of escapes",
      post(`/api/apps/${"%41".repeat(4_500)}/run`, Buffer.from('{"text":"a"}')),
    ),
    of(
      "REST",
      "an Accept of 7,000 options",
      post("/api/apps/echo/run", Buffer.from("{"), { accept: header }),
    ),
    of(
      "REST",
      "an Accept of semicolons",
      post("/api/apps/echo/run", Buffer.from("{"), { accept: ";".repeat(14_000) }),
    ),
    of(
      "REST",
      "a key of 14 KB",
      post("/api/apps/echo/run", Buffer.from("{"), { authorization: `Bearer ${"a".repeat(14_000)}` }),
    ),
    of("OpenAPI", "once", rest("/openapi.json", {})),
    of("OpenAPI", "if none of 7,000 match", rest("/openapi.json", { headers: { "if-none-match": header } })),
    of("OpenAPI", "128 at once", () =>
      Promise.all(Array.from({ length: 128 }, rest("/openapi.json", {}))).then(([first]) => first!),
    ),
    of("metrics", "once", () => sendHttp1(internalPort, "/metrics", { headers: service })),

    of("ListKeys of 10,000", "the first page", call(listKeys, big)),
    of("ListKeys of 10,000", "with those revoked", call(listKeys, { ...big, showRevoked: true })),
    of("ListKeys of 10,000", "a search that finds none", call(listKeys, { ...big, query: "x".repeat(128) })),
    of(
      "ListKeys of 10,000",
      "a search that finds none, of letters beyond ASCII",
      call(listKeys, { ...big, query: "é…".repeat(64) }),
    ),
    of(
      "ListKeys of 10,000",
      "a search with those revoked",
      call(listKeys, { ...big, query: "l".repeat(127), showRevoked: true }),
    ),
    of("ListKeys of 10,000", "a search that finds the oldest", call(listKeys, { ...big, query: "label 0" })),
    of("ListKeys of 10,000", "16 pages at once", () =>
      Promise.all(Array.from({ length: 16 }, call(listKeys, big))).then(([first]) => first!),
    ),
    of("CreateKey", "in a team of 10,000", call(KeyService.method.createKey, { teamId: "big" })),
    {
      group: "ListKeys of 10,000",
      name: "the last page",
      async prepare() {
        let [last, token] = ["", ""];
        do {
          last = token;
          ({ nextPageToken: token } = await keys.listKeys({ ...big, pageToken: last }));
        } while (token !== "");
        return call(listKeys, { ...big, pageToken: last });
      },
      rounds: 3,
    },
  );

  const nowMs = Date.now();
  const dayMs = 86_400_000;
  const since = (days: number) => ({
    startTime: timestampFromMs(nowMs - days * dayMs),
    endTime: timestampFromMs(nowMs),
  });
  const ids = Array.from({ length: filled.keysOfYear }, (_, n) => String(1_000_000 + n).padStart(24, "0"));
  for (const teamId of ["used", "big"]) {
    const count = teamId === "used" ? "50" : "10,000";
    const at = (name: string, query: object) =>
      cases.push(of(`GetUsage of ${count} keys`, name, call(getUsage, { teamId, ...query })));
    at("34 days by the hour", { step: UsageStep.HOUR, ...since(34) });
    at("a year by the day", { step: UsageStep.DAY, ...since(364) });
    at("a year by the day, of one key", { step: UsageStep.DAY, ...since(364), keyId: ids[0] });
    at("200 days, of 50 keys each", { step: UsageStep.DAY, ...since(198), keyIds: ids });
    at("200 hours, of 50 keys each", { step: UsageStep.HOUR, ...since(8), keyIds: ids });
  }

  const events = (name: string, query: MessageInitShape<typeof AuditService.method.listEvents.input>) =>
    cases.push(
      of("ListEvents of 300,000", name, call(AuditService.method.listEvents, { pageSize: 100, ...query })),
    );
  events("the first page", {});
  events("of a team", { teamId: "big" });
  events("of nobody", { actor: "nobody" });
  events("an action that nobody did", { action: "team.create" });
  events("of an actor, what it never did", { actor: "service 0", action: "team.create" });
  events("of nobody, an action", { actor: "nobody", action: "key.create" });
  events("of nobody, an action, in a team", { teamId: "big", actor: "nobody", action: "key.create" });
  events("of an actor, in another team", { teamId: "none", actor: "service 0" });
  events("before the first", { endTime: timestampFromMs(1) });
  events("of an actor, before the first", { actor: "service 0", endTime: timestampFromMs(1) });

  for (const path of appAnswers.keys()) {
    cases.push(
      of("an app's answer of 1 MiB, whole", path, post(`/api/apps/${path}/run`, Buffer.from('{"text":"a"}'))),
    );
    cases.push(
      of(
        "an app's answer of 1 MiB, streamed",
        path,
        post(`/api/apps/${path}/stream`, Buffer.from('{"text":"a"}')),
      ),
    );
  }
  cases.push(
    of(
      "a stream of echo",
      "1 MiB of one letter",
      post("/api/apps/echo/stream", jsonBodies().get("text of plain letters")!),
    ),
  );
  cases.push(
    of(
      "a stream of echo",
      "100,000 words",
      post("/api/apps/echo/stream", Buffer.from(JSON.stringify({ text: "a ".repeat(100_000) }))),
    ),
  );

  let order = 0;
  for (const name of ["text of plain letters", "text of \\u0041", "text of \\n"]) {
    const body = jsonBodies().get(name)!;
    cases.push(
      of("with an Idempotency-Key", name, () =>
        post("/api/apps/echo/run", body, { "idempotency-key": `order-${order++}` })(),
      ),
    );
    cases.push(
      of(
        "with an Idempotency-Key, again",
        name,
        post("/api/apps/echo/run", body, { "idempotency-key": `same-${name}` }),
      ),
    );
  }
  const bodyOfMany = Buffer.from(`{"text":"${"a".repeat(1_048_000)}"}`);
  cases.push({
    group: "bodies of 1 MiB",
    name: "the last bytes of 32 at once",
    async prepare() {
      const calls = await Promise.all(Array.from({ length: 32 }, () => openHttp1(port, bodyOfMany, bearer)));
      await sleep(500);
      return () => Promise.all(calls.map((end) => end())).then(([first]) => first!);
    },
  });

  cases.push(watching(parts, "50 keys are changed"), watching(parts, "50 keys are used"));
  cases.push({
    group: "10,000 keys",
    name: "used within a second, and what is written of it",
    rounds: 1,
    async prepare() {
      const body = JSON.stringify({ text: "a" });
      const requests = values.map(
        (each) =>
          `POST /api/apps/echo/run HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${each}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      );
      return async () => {
        await loadHttp1(port, { requests, expected: '"a"' }, { connections: 32, requests: requests.length });
        await sleep(12_000);
        return "200";
      };
    },
  });
  cases.push(
    of(
      "10,000 keys",
      "usage that is not written yet",
      call(getUsage, { teamId: "busy", step: UsageStep.HOUR, ...since(1) }),
    ),
  );
  cases.push({
    ...of(
      "10,000 keys",
      "are deleted with their team",
      call(TeamService.method.deleteTeam, { teamId: "gone" }),
    ),
    rounds: 1,
  });
  return cases;
}

/** 100 watchers of a team, and what they are told. */
function watching(
  { keys, port, teams }: TurnParts,
  name: "50 keys are changed" | "50 keys are used",
): TurnCase {
  const teamId = name === "50 keys are used" ? "watched-uses" : "watched-changes";
  const abort = new AbortController();
  let made: { id: string; value: string }[] | undefined;
  let told = 0;
  let round = 0;
  return {
    group: "WatchKeys, 100 watchers",
    name,
    async prepare() {
      if (made === undefined) {
        made = [];
        await teams.createTeam({ team: { id: teamId } });
        for (let count = 0; count < 50; count++) {
          const { key, value } = await keys.createKey({ teamId });
          made.push({ id: key?.id ?? "", value });
        }
        for (let count = 0; count < 100; count++) {
          const stream = keys.watchKeys({ teamId }, { signal: abort.signal });
          void (async () => {
            for await (const _ of stream) told++;
          })().catch(() => {});
        }
        while (told < 100) await sleep(10);
      }
      await sleep(1_500);
      const before = told;
      round++;
      return async () => {
        if (name === "50 keys are changed") {
          await Promise.all(
            made!.map(({ id: keyId }) =>
              keys.updateKey({ teamId, keyId, label: `round ${round}`, updateMask: { paths: ["label"] } }),
            ),
          );
        } else {
          await Promise.all(
            made!.map((each) =>
              sendHttp1(port, "/api/apps/echo/run", {
                method: "POST",
                body: Buffer.from('{"text":"a"}'),
                headers: { authorization: `Bearer ${each.value}`, "content-type": "application/json" },
              }),
            ),
          );
        }
        const whole = before + 5_000;
        for (let tries = 0; told < whole && tries < 300; tries++) await sleep(10);
        return `${told - before} told`;
      };
    },
    async end() {
      abort.abort();
    },
  };
}

function pathOf(method: DescMethod): string {
  return `/${method.parent.typeName}/${method.name}`;
}

/** The bytes as the headers of the HTTP backend of an app: of the field 1, in it 3, in it 2. */
function asHeaders(body: Buffer): Buffer {
  const within = (field: number, bytes: Buffer) => {
    const size: number[] = [];
    let left = bytes.length;
    for (; left > 127; left >>>= 7) size.push((left & 127) | 128);
    return Buffer.concat([Buffer.from([(field << 3) | 2, ...size, left]), bytes]);
  };
  return within(1, within(3, within(2, body.subarray(0, body.length - 64 - (body.length % 2)))));
}
