import type { JsonValue } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { codeName } from "#src/http/refusal-response.ts";
import type { CallerMaker, RunOrder, RunOutcome } from "./callers.ts";
import { h2cRequest, openH2cSession } from "./h2c-client.ts";

interface Received {
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
}

/** REST over HTTP/1.1, by `fetch`. */
export const restCaller: CallerMaker = (url) => ({
  close: () => {},
  async run(order) {
    const { path, headers, body } = requestOf(order);
    const answer = await fetch(`${url}${path}`, { method: "POST", headers, body });
    return outcomeOf({ status: answer.status, headers: answer.headers, body: await answer.text() });
  },
});

/** REST over one HTTP/2 connection. */
export const restH2Caller: CallerMaker = (url) => {
  const { session, close } = openH2cSession(url);
  return {
    close,
    async run(order) {
      const { path, headers: sent, body } = requestOf(order);
      const answer = await h2cRequest(
        await session,
        { ":method": "POST", ":path": path, ...Object.fromEntries(sent) },
        body,
      );
      const headers = new Headers();
      for (const [name, value] of Object.entries(answer.headers)) {
        if (!name.startsWith(":")) headers.set(name, String(value));
      }
      return outcomeOf({ ...answer, headers });
    },
  };
};

function requestOf({ appId, text, input, authorization, headers: sent }: RunOrder) {
  const headers = new Headers({ "content-type": "application/json", ...sent });
  if (authorization !== undefined) headers.set("authorization", authorization);
  return {
    path: `/api/apps/${encodeURIComponent(appId)}/run`,
    headers,
    body: JSON.stringify({ text, input }),
  };
}

interface ErrorBody {
  readonly error: { readonly status: string; readonly message: string; readonly details: JsonValue[] };
}

function outcomeOf({ status, headers, body }: Received): RunOutcome {
  if (status === 200 || status === 202) return { kind: "ok", answer: JSON.parse(body), headers };
  const { error } = JSON.parse(body) as ErrorBody;
  const { message, details } = error;
  return {
    kind: "refused",
    code: codeNumbers.get(error.status) ?? Code.Unknown,
    message,
    details,
    headers,
    httpStatus: status,
  };
}

const codeNumbers = new Map(
  Object.values(Code)
    .filter((code) => typeof code === "number")
    .map((code) => [codeName(code), code]),
);
