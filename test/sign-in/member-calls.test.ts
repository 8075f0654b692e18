import { create, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { describe, expect, test } from "vitest";
import { ErrorInfoSchema } from "#gen/google/rpc/error_details_pb.ts";
import { KeyService, ListKeysRequestSchema } from "#gen/keyrun/v1/key_service_pb.ts";
import { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { bounds } from "#src/bounds.ts";
import { frameOf } from "#src/rpc/grpc/frame.ts";
import { closedAtEnd } from "../harness/closed-at-end.ts";
import { h2cSession } from "../harness/h2c-client.ts";
import { startKeyrun, withAuthorization } from "../harness/keyrun.ts";
import { createManualClock } from "../harness/manual-clock.ts";
import { signInOwner } from "../harness/members.ts";
import { openGrpcCall } from "../harness/raw-grpc.ts";

const keyrun = closedAtEnd(await startKeyrun());

const owner = "owner@localhost";

async function refusalOf(
  call: Promise<unknown>,
): Promise<{ reason: string | undefined; code: Code; words: string }> {
  const error = await call.then(
    () => undefined,
    (thrown) => ConnectError.from(thrown),
  );
  if (!error) throw new Error("the call was not refused");
  return {
    reason: error.findDetails(ErrorInfoSchema)[0]?.reason,
    code: error.code,
    words: error.rawMessage,
  };
}

describe("a signed-in person", () => {
  test("sees their own teams with their plans, and that they have preview access", async () => {
    const { sessions } = await signInOwner(keyrun);
    const session = await sessions.getSession({});
    expect(session).toMatchObject({ email: owner, previewAccess: true });
    expect(session.teams).toMatchObject([{ id: "demo", plan: Plan.FREE }]);
  });

  test("creates and revokes keys under their own e-mail, and a service under its own name", async () => {
    const { keys } = await signInOwner(keyrun);
    const { key } = await keys.createKey({ teamId: "demo", label: "ci" });
    expect(key).toMatchObject({ createdBy: owner, revokedBy: "" });
    const revoked = await keys.revokeKey({ teamId: "demo", keyId: key!.id });
    expect(revoked.key).toMatchObject({ createdBy: owner, revokedBy: owner });
    expect((await keyrun.keys.createKey({ teamId: "demo" })).key).toMatchObject({
      createdBy: "the service token",
    });
  });

  test("may do nothing in another team, with the same words as for a team that does not exist", async () => {
    const { keys, teams } = await signInOwner(keyrun);
    const other = await keyrun.newTeam();
    const { key } = await keyrun.keys.createKey({ teamId: other });
    for (const teamId of [other, "nowhere", ""]) {
      const calls = [
        keys.createKey({ teamId }),
        keys.listKeys({ teamId, pageToken: "not a token" }),
        keys.revokeKey({ teamId, keyId: key!.id }),
        teams.getRateLimit({ teamId }),
      ];
      // All are awaited at once: one that is refused before its turn would be an unhandled error.
      for (const refusal of await Promise.all(calls.map(refusalOf))) {
        expect(refusal).toEqual({
          reason: "TEAM_NOT_FOUND",
          code: Code.NotFound,
          words: "There is no team with this id.",
        });
      }
    }
    expect((await keyrun.keys.listKeys({ teamId: other })).activeKeyCount).toBe(1);
  });

  test("may do no more over gRPC, which browsers can't send: another team and another host are refused too", async () => {
    const { browser } = await signInOwner(keyrun);
    const other = await keyrun.newTeam();
    const cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const session = await h2cSession(keyrun.publicUrl);
    const statusOf = async (teamId: string, headers: Record<string, string> = {}) => {
      const { stream, answer } = openGrpcCall(session, "/keyrun.v1.KeyService/ListKeys", {
        ":authority": new URL(keyrun.publicUrl).host,
        cookie,
        "sec-fetch-site": "same-origin",
        ...headers,
      });
      stream.end(frameOf(toBinary(ListKeysRequestSchema, create(ListKeysRequestSchema, { teamId }))));
      const { headers: head, trailers } = await answer;
      return trailers["grpc-status"] ?? head[":status"];
    };
    expect(await statusOf("demo")).toBe("0");
    expect(await statusOf(other)).toBe(String(Code.NotFound));
    expect(await statusOf("demo", { ":authority": "elsewhere.example" })).toBe(421);
    expect(await statusOf("demo", { "sec-fetch-site": "cross-site" })).toBe(String(Code.PermissionDenied));
    session.close();
  });

  test("loses a team with the first call after the membership ended", async () => {
    const { keys, sessions } = await signInOwner(keyrun);
    const teamId = await keyrun.newTeam();
    await keyrun.teams.addMember({ teamId, email: owner });
    await keys.createKey({ teamId });
    await keyrun.teams.removeMember({ teamId, email: owner });
    expect(await refusalOf(keys.listKeys({ teamId }))).toMatchObject({ reason: "TEAM_NOT_FOUND" });
    expect((await sessions.getSession({})).teams.map(({ id }) => id)).not.toContain(teamId);
  });

  test("loses keys with the first call after preview access ended, and stays signed in", async () => {
    const { keys, sessions, teams } = await signInOwner(keyrun);
    const { key } = await keys.createKey({ teamId: "demo" });
    await keyrun.teams.setPreviewAccess({ email: owner, granted: false });
    try {
      const calls = [
        keys.createKey({ teamId: "demo" }),
        keys.listKeys({ teamId: "demo" }),
        keys.revokeKey({ teamId: "demo", keyId: key!.id }),
        teams.getRateLimit({ teamId: "demo" }),
      ];
      for (const refusal of await Promise.all(calls.map(refusalOf))) {
        expect(refusal).toMatchObject({
          reason: "PREVIEW_REQUIRED",
          code: Code.PermissionDenied,
        });
      }
      expect(await sessions.getSession({})).toMatchObject({ previewAccess: false, teams: [{ id: "demo" }] });
    } finally {
      await keyrun.teams.setPreviewAccess({ email: owner, granted: true });
    }
  });

  test("is signed out for good: the cookie is removed, and a copy of it is refused", async () => {
    const { browser, sessions } = await signInOwner(keyrun);
    const copied = new Map(browser.cookies);
    await sessions.signOut({});
    expect(browser.cookies.size).toBe(0);
    for (const [name, value] of copied) browser.cookies.set(name, value);
    expect(await refusalOf(sessions.getSession({}))).toMatchObject({
      reason: "INVALID_CREDENTIAL",
      code: Code.Unauthenticated,
    });
  });
});

describe("a call with a cookie", () => {
  const rpc = "/keyrun.v1.SessionService/GetSession";
  const asConnect = { "content-type": "application/json", "connect-protocol-version": "1" };
  const call = { method: "POST", body: "{}" };

  test("from another site is refused and changes nothing", async () => {
    const { browser } = await signInOwner(keyrun);
    const { activeKeyCount } = await keyrun.keys.listKeys({ teamId: "demo" });
    for (const site of ["cross-site", "same-site", "none"]) {
      const answer = await browser.load(`${keyrun.publicUrl}/keyrun.v1.KeyService/CreateKey`, {
        method: "POST",
        headers: { ...asConnect, "sec-fetch-site": site },
        body: '{"teamId":"demo"}',
      });
      expect(answer).toMatchObject({ status: 403, body: expect.stringContaining("CROSS_SITE_REQUEST") });
    }
    expect((await keyrun.keys.listKeys({ teamId: "demo" })).activeKeyCount).toBe(activeKeyCount);
  });

  test("for another host is misdirected, before any other check", async () => {
    const { browser } = await signInOwner(keyrun);
    const headers = { ...asConnect, host: "evil.example" };
    const answer = await browser.load(keyrun.publicUrl + rpc, { ...call, headers });
    expect(answer.status).toBe(421);
    expect(JSON.parse(answer.body)).toMatchObject({ error: { code: "misdirected_request" } });
  });

  test("may not be cached, and is never accepted as a GET", async () => {
    const { browser } = await signInOwner(keyrun);
    const answer = await browser.load(keyrun.publicUrl + rpc, { ...call, headers: asConnect });
    expect(answer).toMatchObject({ status: 200, headers: { "cache-control": "no-store" } });
    const get = `${keyrun.publicUrl}${rpc}?connect=v1&encoding=json&message=%7B%7D`;
    expect((await browser.load(get)).status).toBe(405);
  });

  test("with two session cookies is refused", async () => {
    const { browser } = await signInOwner(keyrun);
    const [[name, value] = []] = browser.cookies;
    const headers = { ...asConnect, cookie: `${name}=${value}; ${name}=${value}` };
    const answer = await browser.load(keyrun.publicUrl + rpc, { ...call, headers });
    expect(answer).toMatchObject({ status: 401, body: expect.stringContaining("sent twice") });
  });

  test("without a cookie is refused as such, and a key or the service token as the wrong kind", async () => {
    const { value } = await keyrun.newKey("demo");
    const anonymous = createConnectTransport({ baseUrl: keyrun.publicUrl, httpVersion: "1.1" });
    expect(await refusalOf(createClient(SessionService, anonymous).getSession({}))).toMatchObject({
      reason: "MISSING_CREDENTIAL",
      code: Code.Unauthenticated,
    });
    for (const token of [value, keyrun.serviceToken]) {
      const interceptors = [withAuthorization(`Bearer ${token}`)];
      const transport = createConnectTransport({
        baseUrl: keyrun.publicUrl,
        httpVersion: "1.1",
        interceptors,
      });
      expect(await refusalOf(createClient(KeyService, transport).listKeys({ teamId: "demo" }))).toMatchObject(
        {
          reason: "INVALID_CREDENTIAL",
          code: Code.Unauthenticated,
        },
      );
    }
  });

  test("runs no app: paths that take keys ignore cookies, and accept any site", async () => {
    const { browser } = await signInOwner(keyrun);
    const run = { method: "POST", headers: { "content-type": "application/json" }, body: '{"text":"a"}' };
    expect((await browser.load(`${keyrun.publicUrl}/api/apps/echo/run`, run)).status).toBe(401);
    const { value } = await keyrun.newKey("demo");
    const headers = {
      ...run.headers,
      authorization: `Bearer ${value}`,
      "sec-fetch-site": "cross-site",
      host: "evil.example",
    };
    expect((await browser.load(`${keyrun.publicUrl}/api/apps/echo/run`, { ...run, headers })).status).toBe(
      200,
    );
  });
});

test("polling keeps no session alive, but creating and revoking keys does", async () => {
  const clock = createManualClock();
  const own = await startKeyrun({ clock });
  try {
    const { keys, sessions, teams } = await signInOwner(own);
    const poll = async () => {
      await sessions.getSession({});
      await keys.listKeys({ teamId: "demo" });
      await teams.getRateLimit({ teamId: "demo" });
    };
    clock.advance(bounds.sessionIdleMsMax - 1);
    await poll();
    const { key } = await keys.createKey({ teamId: "demo" });
    clock.advance(bounds.sessionIdleMsMax - 1);
    await poll();
    await keys.revokeKey({ teamId: "demo", keyId: key!.id });
    clock.advance(bounds.sessionIdleMsMax - 1);
    await poll();
    clock.advance(1);
    expect(await refusalOf(sessions.getSession({}))).toMatchObject({ reason: "INVALID_CREDENTIAL" });
  } finally {
    await own.close();
  }
});

describe("watching keys", () => {
  async function watch() {
    const member = await signInOwner(keyrun);
    const stream = member.keys.watchKeys({ teamId: "demo" })[Symbol.asyncIterator]();
    /** The next message, without the uses that other tests made. */
    const next = async () => {
      for (;;) {
        const event = (await stream.next()).value?.event;
        if (event?.case !== "used") return event;
      }
    };
    expect(await next()).toMatchObject({ case: "opened" });
    return { ...member, next };
  }

  test("shows what a colleague and a service do, with their names", async () => {
    const { next } = await watch();
    const { keys } = await signInOwner(keyrun);
    const { key } = await keys.createKey({ teamId: "demo", label: "seen" });
    expect(await next()).toMatchObject({ case: "created", value: { label: "seen", createdBy: owner } });
    await keyrun.keys.revokeKey({ teamId: "demo", keyId: key!.id });
    expect(await next()).toMatchObject({
      case: "revoked",
      value: { id: key!.id, createdBy: owner, revokedBy: "the service token" },
    });
  });

  test("ends when the session ends", async () => {
    const { next, sessions } = await watch();
    const waiting = refusalOf(next());
    await sessions.signOut({});
    expect(await waiting).toMatchObject({ reason: "INVALID_CREDENTIAL", code: Code.Unauthenticated });
  });

  test("ends when the membership ends", async () => {
    const { next } = await watch();
    const waiting = refusalOf(next());
    await keyrun.teams.removeMember({ teamId: "demo", email: owner });
    expect(await waiting).toMatchObject({ reason: "TEAM_NOT_FOUND" });
    await keyrun.teams.addMember({ teamId: "demo", email: owner });
  });

  test("ends when preview access ends", async () => {
    const { next } = await watch();
    const waiting = refusalOf(next());
    await keyrun.teams.setPreviewAccess({ email: owner, granted: false });
    expect(await waiting).toMatchObject({ reason: "PREVIEW_REQUIRED" });
    await keyrun.teams.setPreviewAccess({ email: owner, granted: true });
  });

  test("of another team is refused", async () => {
    const { keys } = await signInOwner(keyrun);
    const teamId = await keyrun.newTeam();
    const stream = keys.watchKeys({ teamId })[Symbol.asyncIterator]();
    expect(await refusalOf(stream.next())).toMatchObject({ reason: "TEAM_NOT_FOUND" });
  });

  test("ends at the drain, which does not wait for it", async () => {
    const own = await startKeyrun({ settings: { KEYRUN_DRAIN_MS_MAX: "600000" } });
    const { keys } = await signInOwner(own);
    const stream = keys.watchKeys({ teamId: "demo" })[Symbol.asyncIterator]();
    await stream.next();
    const waiting = refusalOf(stream.next());
    await own.close();
    expect(await waiting).toMatchObject({ reason: "UNAVAILABLE", code: Code.Unavailable });
  });
});
