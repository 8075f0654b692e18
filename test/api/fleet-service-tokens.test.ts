import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { afterAll, beforeAll, expect, test } from "vitest";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { ServiceRole } from "#gen/keyrun/v1/service_token_pb.ts";
import { asksAgain, eventually, madeOnce, whileBusy } from "../harness/eventually.ts";
import { describeFleet, type FleetHere, startFleet } from "../harness/fleet.ts";
import { type Keyrun, withAuthorization } from "../harness/keyrun.ts";

describeFleet("here")("in a fleet, a service token", () => {
  let fleet: FleetHere;
  beforeAll(async () => {
    fleet = await startFleet({ in: "here" });
    await madeOnce(() => fleet.members[0].teams.createTeam({ team: { id: "acme" } }));
  });
  afterAll(() => fleet.close());

  const keysAs = (value: string, { internalUrl }: Keyrun) =>
    createClient(
      KeyService,
      createGrpcTransport({
        baseUrl: internalUrl,
        interceptors: [asksAgain, withAuthorization(`Bearer ${value}`)],
      }),
    );
  const opened = (keys: ReturnType<typeof keysAs>) =>
    eventually(async () => {
      const stream = keys.watchKeys({ teamId: "acme" })[Symbol.asyncIterator]();
      await stream.next();
      return stream;
    }, whileBusy);
  const codeOf = (call: Promise<unknown>) =>
    call.then(
      () => 0,
      (thrown) => ConnectError.from(thrown).code,
    );

  test("works on each instance at once, and revoked on none, also where it was cached or a stream is open", async () => {
    const [one, other] = fleet.members;
    for (let n = 0; n < 10; n++) {
      const [maker, user] = n % 2 === 0 ? [one, other] : [other, one];
      const { id, value } = await maker.newServiceToken(ServiceRole.MANAGE, ["acme"]);
      const keys = keysAs(value, user);
      for (let use = 0; use < 3; use++) await keys.listKeys({ teamId: "acme" });
      const stream = await opened(keys);
      const ended = codeOf(stream.next());
      await maker.serviceTokens.revokeServiceToken({ serviceTokenId: id });
      expect(await codeOf(keys.listKeys({ teamId: "acme" }))).toBe(Code.Unauthenticated);
      // Where its instance had no lease for a moment, the stream ended with that. Open it again.
      const end = await ended;
      expect(end === Code.Unavailable ? await codeOf(opened(keys)) : end).toBe(Code.Unauthenticated);
    }
  });

  test("that names a team loses it on each instance once the team is deleted", async () => {
    const [one, other] = fleet.members;
    const teamId = await one.newTeam();
    const { value } = await one.newServiceToken(ServiceRole.MANAGE, ["acme", teamId]);
    const keys = keysAs(value, other);
    await keys.listKeys({ teamId });
    await one.teams.deleteTeam({ teamId });
    await one.teams.createTeam({ team: { id: teamId } });
    expect(await codeOf(keys.listKeys({ teamId }))).toBe(Code.PermissionDenied);
    await keys.listKeys({ teamId: "acme" });
  });

  test("shows on one instance that it was used on another", async () => {
    const [one, other] = fleet.members;
    const { id, value } = await one.newServiceToken(ServiceRole.VERIFY);
    await keysAs(value, other).verifyKey({ value: "none", cost: 0 });
    const isUsed = async () => {
      const { serviceTokens } = await one.serviceTokens.listServiceTokens({});
      return serviceTokens.find((each) => each.id === id)?.lastUseTime !== undefined;
    };
    await expect.poll(isUsed).toBe(true);
  });
});
