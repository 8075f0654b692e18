import type { DescMethod } from "@bufbuild/protobuf";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { KeyService } from "#gen/keyrun/v1/key_service_pb.ts";
import { ServiceRole } from "#gen/keyrun/v1/service_token_pb.ts";
import { ServiceTokenService } from "#gen/keyrun/v1/service_token_service_pb.ts";
import { SessionService } from "#gen/keyrun/v1/session_service_pb.ts";
import { Plan } from "#gen/keyrun/v1/team_pb.ts";
import { TeamService } from "#gen/keyrun/v1/team_service_pb.ts";
import type { Keyrun } from "../harness/keyrun.ts";

/** A call that the audit log writes down. */
export interface AuditedCall {
  readonly request: object;
  /** What the event says it is about; absent: not known before the call. */
  readonly teamId?: string;
  readonly target?: string;
  /** What exactly was done, as far as the request says it; absent: nothing. */
  readonly detail?: string;
}

/** How a method that changes something is called so that it is done, and so that it is refused. */
export interface AuditedCalls {
  readonly method: DescMethod;
  readonly action: string;
  readonly done: (keyrun: Keyrun) => Promise<AuditedCall>;
  readonly refused: AuditedCall;
}

const noKey = "7k3f0m9x2a4c6e8g1j5n7p9q";
const absentKey = { request: { teamId: "demo", keyId: noKey }, teamId: "demo", target: noKey };
const echo = { kind: { case: "echo", value: {} } } as const;
const email = "grace@example.com";
let count = 0;
const newId = () => `made-${++count}`;

/** Of a key that was just made. */
async function ofNewKey(keyrun: Keyrun): Promise<AuditedCall> {
  const { id: keyId, teamId } = await keyrun.newKey("demo");
  return { request: { teamId, keyId }, teamId, target: keyId };
}

/** Every method of Keyrun's own services that changes something. */
export const auditedCalls: readonly AuditedCalls[] = [
  {
    method: KeyService.method.createKey,
    action: "key.create",
    done: async () => ({ request: { teamId: "demo", label: "ci" }, teamId: "demo" }),
    refused: { request: { teamId: "demo", requestId: "no uuid" }, teamId: "demo", target: "" },
  },
  {
    method: KeyService.method.revokeKey,
    action: "key.revoke",
    done: ofNewKey,
    refused: absentKey,
  },
  {
    method: KeyService.method.updateKey,
    action: "key.update",
    async done(keyrun) {
      const { id: keyId, teamId } = await keyrun.newKey("demo");
      const request = { teamId, keyId, label: "ci", updateMask: { paths: ["label"] } };
      return { request, teamId, target: keyId, detail: "changed=label" };
    },
    refused: absentKey,
  },
  {
    method: KeyService.method.rotateKey,
    action: "key.rotate",
    done: ofNewKey,
    refused: absentKey,
  },
  {
    method: KeyService.method.revokeLeakedKey,
    action: "key.revoke_leaked",
    async done(keyrun) {
      const { id, teamId, value } = await keyrun.newKey("demo");
      return { request: { value }, teamId, target: id };
    },
    refused: { request: { value: "svc_no.key" }, teamId: "", target: "" },
  },
  {
    method: ServiceTokenService.method.createServiceToken,
    action: "service_token.create",
    async done() {
      const name = newId();
      return {
        request: { name, role: ServiceRole.VERIFY },
        teamId: "",
        detail: `name=${name} role=verify`,
      };
    },
    refused: {
      // Keyrun's own name.
      request: { name: "keyrun", role: ServiceRole.VERIFY },
      ...{ teamId: "", target: "keyrun", detail: "name=keyrun role=verify" },
    },
  },
  {
    method: ServiceTokenService.method.revokeServiceToken,
    action: "service_token.revoke",
    async done(keyrun) {
      const { id } = await keyrun.newServiceToken(ServiceRole.VERIFY);
      return { request: { serviceTokenId: id }, teamId: "", target: id };
    },
    refused: { request: { serviceTokenId: noKey }, teamId: "", target: noKey },
  },
  {
    method: TeamService.method.createTeam,
    action: "team.create",
    async done() {
      const id = newId();
      const request = { team: { id, plan: Plan.PRO } };
      return { request, teamId: id, target: "", detail: "plan=pro" };
    },
    refused: { request: { team: { id: "demo" } }, teamId: "demo", target: "" },
  },
  {
    method: TeamService.method.updateTeam,
    action: "team.update",
    async done(keyrun) {
      const id = await keyrun.newTeam();
      const request = { team: { id, displayName: "Acme" }, updateMask: { paths: ["display_name"] } };
      return { request, teamId: id, target: "", detail: "changed=display_name" };
    },
    refused: { request: { team: { id: "nobody" } }, teamId: "nobody", target: "" },
  },
  {
    method: TeamService.method.deleteTeam,
    action: "team.delete",
    async done(keyrun) {
      const teamId = await keyrun.newTeam();
      return { request: { teamId }, teamId, target: "" };
    },
    refused: { request: { teamId: "nobody" }, teamId: "nobody", target: "" },
  },
  {
    method: TeamService.method.addMember,
    action: "member.add",
    done: async () => ({ request: { teamId: "demo", email }, teamId: "demo", target: email }),
    refused: { request: { teamId: "nobody", email }, teamId: "nobody", target: email },
  },
  {
    method: TeamService.method.removeMember,
    action: "member.remove",
    async done(keyrun) {
      await keyrun.teams.addMember({ teamId: "demo", email });
      return { request: { teamId: "demo", email }, teamId: "demo", target: email };
    },
    refused: { request: { teamId: "nobody", email }, teamId: "nobody", target: email },
  },
  {
    // The plan of the team needs a quota: KEYRUN_PLAN_QUOTAS of the test has `pro`.
    method: TeamService.method.grantRequests,
    action: "team.grant_requests",
    async done(keyrun) {
      const teamId = await keyrun.newTeam(Plan.PRO);
      return { request: { teamId, requests: 5n }, teamId, detail: "requests=5" };
    },
    refused: { request: { teamId: "demo", requests: 0n }, teamId: "demo", target: "", detail: "requests=0" },
  },
  {
    method: TeamService.method.setPreviewAccess,
    action: "preview.set",
    done: async () => ({
      request: { email, granted: true },
      ...{ teamId: "", target: email, detail: "granted=true" },
    }),
    refused: { request: { email: "nobody" }, teamId: "", target: "", detail: "granted=false" },
  },
  {
    method: AppService.method.createApp,
    action: "app.create",
    async done() {
      const id = newId();
      return {
        request: { app: { id, backend: echo } },
        ...{ teamId: "", target: id, detail: "backend=echo" },
      };
    },
    refused: { request: { app: { id: "echo" } }, teamId: "", target: "echo" },
  },
  {
    method: AppService.method.updateApp,
    action: "app.update",
    async done(keyrun) {
      const id = newId();
      await keyrun.apps.createApp({ app: { id, backend: echo } });
      const request = { app: { id, displayName: "Echo" }, updateMask: { paths: ["display_name"] } };
      return { request, teamId: "", target: id, detail: "changed=display_name" };
    },
    refused: { request: { app: { id: "nothing" } }, teamId: "", target: "nothing" },
  },
  {
    method: AppService.method.deleteApp,
    action: "app.delete",
    async done(keyrun) {
      const appId = newId();
      await keyrun.apps.createApp({ app: { id: appId, backend: echo } });
      return { request: { appId }, teamId: "", target: appId };
    },
    refused: { request: { appId: "nothing" }, teamId: "", target: "nothing" },
  },
  {
    method: SessionService.method.createSignInLink,
    action: "sign_in_link.create",
    done: async () => ({ request: {}, teamId: "", target: "" }),
    refused: { request: {}, teamId: "", target: "" },
  },
];

/** Methods that other tests call: a session's own. */
export const auditedElsewhere: readonly DescMethod[] = [SessionService.method.signOut];
