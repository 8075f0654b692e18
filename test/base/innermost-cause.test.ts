import { createServer, type Server } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { innermostCause } from "#src/base/innermost-cause.ts";
import { bounds } from "#src/bounds.ts";
import { fail } from "#src/refusal/refusal.ts";
import { freePort } from "../harness/free-port.ts";

/** A server that speaks no TLS. */
const plain: Server = createServer((socket) => {
  socket.on("error", () => {});
  socket.end("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
});
beforeAll(() => new Promise<void>((bound) => plain.listen(0, "127.0.0.1", bound)));
afterAll(() => void plain.close());

const thrownBy = (call: Promise<unknown>) =>
  call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );

test("of a call that was refused, the system's words are said and not the library's", async () => {
  const port = await freePort();
  const thrown = await thrownBy(fetch(`http://127.0.0.1:${port}/`));
  expect(thrown).toMatchObject({ message: "fetch failed" });
  expect(innermostCause(new Error("can't be reached", { cause: thrown }))).toBe(
    `connect ECONNREFUSED 127.0.0.1:${port}`,
  );
});

test("a server without TLS is named as one", async () => {
  const { port } = plain.address() as { port: number };
  expect(innermostCause(await thrownBy(fetch(`https://127.0.0.1:${port}/`)))).toBe(
    "wrong version number (ERR_SSL_WRONG_VERSION_NUMBER): the server there speaks no TLS",
  );
});

test("each of several failures is said once", () => {
  const [one, other] = ["::1", "127.0.0.1"].map((host) => new Error(`connect ECONNREFUSED ${host}:9`));
  const all = new AggregateError([one, other, new Error("connect ECONNREFUSED ::1:9")], "");
  expect(innermostCause(new TypeError("fetch failed", { cause: all }))).toBe(
    "connect ECONNREFUSED ::1:9; connect ECONNREFUSED 127.0.0.1:9",
  );
});

test("a certificate that is not trusted comes with its code and with what to do", () => {
  const said =
    "self-signed certificate; if the root CA is installed locally, try running Node.js with --use-system-ca";
  const untrusted = Object.assign(new Error(said), {
    code: "DEPTH_ZERO_SELF_SIGNED_CERT",
  });
  expect(innermostCause(new TypeError("fetch failed", { cause: untrusted }))).toBe(
    "self-signed certificate (DEPTH_ZERO_SELF_SIGNED_CERT): NODE_EXTRA_CA_CERTS can name a file with the authority to trust",
  );
});

test("what is no error is no cause: it may be what a server has sent", () => {
  const answered = new Error("invalid response", { cause: { body: "a token" } });
  expect(innermostCause(answered)).toBe("invalid response");
  expect(innermostCause("a token")).toBe("unknown failure");
});

test("the sentence of an app's refusal is its cause", () => {
  expect(innermostCause(fail("APP_FAILED", { cause: "The backend answered 404, not 200." }))).toBe(
    "The backend answered 404, not 200.",
  );
});

test("the words are one line of bounded length, also of a circle of causes", () => {
  const circle = new Error(`${"x".repeat(1_000)}\nanother line`);
  circle.cause = circle;
  expect(innermostCause(circle)).toBe("x".repeat(bounds.causeCharactersMax));
  expect(innermostCause(new Error(""))).toBe("Error");
});
