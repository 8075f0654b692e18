/**
 * Writes down each call that changes something, and each that was refused one. `invoke.ts` calls it
 * round the work of every RPC, and `authenticate` is wrapped in it.
 */

import type { DescMethod } from "@bufbuild/protobuf";
import type { Caller } from "../../admission/admission.ts";
import type { AuditLog } from "../../audit/audit-log.ts";
import type { ChangeFacts } from "../../audit/pending-change.ts";
import { type Anyone, actorOf, type Call, type ChangeSubject, type Principal } from "../../auth/principal.ts";
import type { Refusal } from "../../refusal/refusal.ts";
import type { Authenticate, AuthResult } from "../authenticate.ts";
import { type AuditedMethod, auditedMethod } from "./audited-methods.ts";

/** What the audit log needs of the RPC handlers. */
export interface AuditCalls {
  /**
   * Does the work of a method, with one event for it if the method changes something. Returns or
   * throws as the work does.
   */
  during<T>(
    method: DescMethod,
    called: { readonly request: unknown; readonly call: Call },
    work: () => T | Promise<T>,
  ): T | Promise<T>;
  /** Writes down a call whose caller may not do it. Does nothing for a method that only reads. */
  unauthorized(method: DescMethod, request: unknown, refused: { call: Call; refusal: Refusal }): void;
  /**
   * The same authentication. It writes down refused calls of methods that change something, and
   * wrong service tokens, whatever the method.
   */
  authenticate(authenticate: Authenticate, isForServices: (method: DescMethod) => boolean): Authenticate;
  /** Writes down a token that is no service token. All that come from one address are joined. */
  wrongToken(refused: { readonly address: string; readonly refusal: Refusal }): void;
}

export function createAuditCalls(log: AuditLog): AuditCalls {
  function wrongToken({ address, refusal }: { readonly address: string; readonly refusal: Refusal }): void {
    // A caller that shows none is most often a person who looks what is here.
    if (refusal.reason !== "INVALID_CREDENTIAL") return;
    const facts = { actor: unknown, address, channel: "rpc", action: "service_token.refused" } as const;
    log.refused({ ...facts, teamId: "", target: "", detail: "", requestId: "" }, refusal, {
      isUnknown: true,
    });
  }
  return {
    wrongToken,
    during(method, { request, call }, work) {
      const audited = auditedMethod(method);
      if (!audited) return work();
      const facts = { ...factsOf(audited, call.principal, call.http), ...audited.subjectOf(request) };
      const form = { ...audited.form, isUnknown: isUnknown(call.principal), subject: call.subject };
      return log.during(facts, async () => work(), form);
    },
    unauthorized(method, request, { call, refusal }) {
      const audited = auditedMethod(method);
      if (!audited) return;
      const { teamId, target, detail } = audited.subjectOf(request);
      // The team is not the caller's. Its members need not read what strangers have tried.
      const subject = { teamId: "", target: teamId === "" ? target : teamId, detail };
      const facts = { ...factsOf(audited, call.principal, call.http), ...subject };
      log.refused(facts, refusal, { ...audited.form, isUnknown: isUnknown(call.principal) });
    },
    authenticate: (authenticate, isForServices) => async (method, caller) => {
      const decided = await authenticate(method, caller);
      if (decided.kind === "admitted") return decided;
      const audited = auditedMethod(method);
      if (audited) noteRefused(log, { audited, caller, decided });
      else if (isForServices(method)) wrongToken({ address: caller.address, refusal: decided.refusal });
      return decided;
    },
  };
}

/** A caller without a credential can repeat this at will, so such attempts are joined. */
function noteRefused(
  log: AuditLog,
  {
    audited,
    caller,
    decided: { principal, refusal },
  }: { audited: AuditedMethod; caller: Caller; decided: Extract<AuthResult, { kind: "refused" }> },
): void {
  const facts = factsOf(audited, principal, { address: caller.address, requestId: "" });
  const form = { ...audited.form, isUnknown: isUnknown(principal) };
  log.refused({ ...facts, teamId: "", target: "", detail: "" }, refusal, form);
}

function factsOf(
  { action }: AuditedMethod,
  principal: Principal | undefined,
  { address, requestId }: Pick<Call["http"], "address" | "requestId">,
): Omit<ChangeFacts, keyof ChangeSubject> {
  return { actor: actorIn(principal), address, channel: channelOf(principal), action, requestId };
}

const unknown = "unknown";

function actorIn(principal: Principal | undefined): string {
  return isUnknown(principal) ? unknown : actorOf(principal);
}

function isUnknown(principal: Principal | undefined): principal is undefined | Anyone {
  return principal === undefined || principal.kind === "anyone";
}

function channelOf(principal: Principal | undefined): ChangeFacts["channel"] {
  if (principal?.kind === "session") return "screen";
  return principal?.kind === "service" && principal.client === "command-line" ? "command_line" : "rpc";
}
