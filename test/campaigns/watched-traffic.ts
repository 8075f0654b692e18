import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { madeOnce } from "../harness/eventually.ts";
import { manage, withAuthorization } from "../harness/keyrun.ts";
import { restRun } from "../harness/keyrun-process.ts";

/** Traffic of every kind that the metrics tell apart. */
export interface WatchedTraffic {
  /** Sends some of each kind, and resolves when it is answered. */
  round(): Promise<void>;
  close(): void;
}

export interface WatchedKeyrun {
  readonly publicUrl: string;
  readonly internalUrl: string;
  readonly serviceToken: string;
  /** The app that fails on `fail`. */
  readonly appUrl: string;
  /** Apart from those of other Keyruns on the same store. */
  readonly name: string;
}

/** Needs the plan limits `free=10,pro=100000`. */
export async function openWatchedTraffic(keyrun: WatchedKeyrun): Promise<WatchedTraffic> {
  const { publicUrl, internalUrl, serviceToken, name } = keyrun;
  const manager = manage(internalUrl, serviceToken, { isPatient: true });
  const [busy, small] = [`${name}-busy`, `${name}-small`];
  await madeOnce(() => manager.teams.createTeam({ team: { id: busy, plan: Plan.PRO } }));
  await madeOnce(() => manager.teams.createTeam({ team: { id: small, plan: Plan.FREE } }));
  const appId = `${name}-app`;
  const http = { kind: { case: "http", value: { url: keyrun.appUrl } } } as const;
  await madeOnce(() => manager.apps.createApp({ app: { id: appId, backend: http } }));
  const first = await manager.newKey(busy);
  const throttled = await manager.newKey(small);
  const transport = createGrpcTransport({
    baseUrl: internalUrl,
    interceptors: [withAuthorization(`Bearer ${serviceToken}`)],
  });
  const verifier = createClient(KeyService, transport);
  const leaving = new AbortController();
  // A watcher of the team's keys, and a stream that nobody reads to its end.
  void (async () => {
    for await (const _ of manager.keys.watchKeys({ teamId: busy }, { signal: leaving.signal }));
  })().catch(() => {});

  const stream = async (value: string, app: string, text: string) => {
    const answer = await fetch(`${publicUrl}/api/apps/${app}/stream`, {
      method: "POST",
      headers: { authorization: `Bearer ${value}`, "content-type": "application/json" },
      body: JSON.stringify({ text }),
    });
    await answer.text();
  };
  return {
    async round() {
      const { value } = first;
      const made = await manager.newKey(busy);
      await Promise.all([
        ...Array.from({ length: 10 }, () => restRun(publicUrl, { value })),
        ...Array.from({ length: 5 }, () => restRun(publicUrl, { value, appId, text: "fail" })),
        ...Array.from({ length: 5 }, () => restRun(publicUrl, { value, appId })),
        ...Array.from({ length: 15 }, () => restRun(publicUrl, { value: throttled.value })),
        restRun(publicUrl, { value, appId: "no-app" }),
        restRun(publicUrl, { value: "not-a-key" }),
        restRun(publicUrl, { value: made.value }),
        stream(value, "echo", "some words"),
        stream(value, appId, "fail"),
        verifier.verifyKey({ value }),
        verifier.verifyKey({ value: throttled.value }),
      ]);
      await manager.keys.revokeKey({ teamId: busy, keyId: made.id });
      await restRun(publicUrl, { value: made.value });
    },
    close() {
      leaving.abort();
      manager.disconnect();
    },
  };
}
