import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createKeyForm } from "#src/keys/key-value.ts";
import { createServiceSecrets } from "#src/keys/service-secrets.ts";
import { createLog } from "#src/log/log.ts";
import { createRedaction } from "#src/log/redaction.ts";
import { reasons } from "#src/refusal/reasons.ts";
import { mutatedKey, tellsSecret } from "../harness/mutated-keys.ts";

const id = "0123456789abcdefghjkmnpq";
const tail = "QqZz".repeat(12);
const key = `svc_${id}.${tail}7`;
const token = `token+for/tests~only=${"0".repeat(32)}`;

function recorded(level: Parameters<typeof createLog>[0]["level"] = "info", keyPrefix = "svc") {
  const lines: string[] = [];
  const destination = { write: (line: string) => lines.push(line) };
  return { log: createLog({ level, keyPrefix, secrets: [token], destination }), lines };
}

test("an error is told with what it says, and a cause in words as it is", () => {
  const { log, lines } = recorded();
  const facts = { name: "Odd", code: "E1", param: null, isQuiet: false, metadata: {}, at: new Date(0) };
  log.warn({ err: Object.assign(new Error("x", { cause: new Error("y") }), facts) }, "it failed");
  log.warn({ cause: "No answer within 300 ms." }, "it failed");
  const [told, words] = lines.map((line) => JSON.parse(line));
  const stack = expect.stringMatching(/^Odd: x|^Error: x/);
  expect(told.err).toEqual({
    type: "Error",
    message: "x: y",
    stack,
    code: "E1",
    at: "1970-01-01T00:00:00.000Z",
  });
  expect(words.cause).toBe("No answer within 300 ms.");
});

describe("a key anywhere in a record is logged as its id, never with its secret", () => {
  const deep = new Error("outer", { cause: new TypeError("middle", { cause: new Error(`inner ${key}`) }) });
  const places: Record<string, unknown> = {
    "a nested field": { request: { headers: [{ value: key }] } },
    "a field's name": { [key]: 1 },
    "an error's message": { err: new Error(`refused ${key}`) },
    "an error's cause": { err: deep },
    "an error under another name": { error: deep },
    "an aggregate of errors": { err: new AggregateError([new Error(key)], "several") },
    "an error's own field": { err: Object.assign(new Error("x"), { command: { value: key } }) },
    "a URL": { url: new URL(`http://localhost/run?key=${key}`) },
    "a percent-encoded URL": { url: `/run?key=svc%5F${id}%2e${tail}7` },
    "text in JSON in text": { body: JSON.stringify(JSON.stringify({ value: key })) },
    "what comes after other words": { text: `x=${key}` },
  };

  test.each(Object.entries(places))("%s", (_, record) => {
    const { log, lines } = recorded();
    log.error(record, "it failed");
    expect(lines).toHaveLength(1);
    expect(lines[0]).not.toContain(tail);
    expect(lines[0]).toContain(id);
    expect(JSON.parse(lines[0]!).msg).toBe("it failed");
  });

  test("the message, with or without its parts", () => {
    const { log, lines } = recorded();
    log.info(`key ${key} came`);
    log.info("key %s came", key);
    const said = lines.map((line) => JSON.parse(line).msg);
    expect(said).toEqual([`key svc_${id}.… came`, `key svc_${id}.… came`]);
  });

  test("a child's bindings", () => {
    const { log, lines } = recorded();
    log.child({ key }).info("hi");
    expect(JSON.parse(lines[0]!).key).toBe(`svc_${id}.…`);
  });

  test("the operator's own prefix", () => {
    const { log, lines } = recorded("info", "acme1");
    log.info({ text: `acme1_${id}.${tail}` }, "hi");
    expect(JSON.parse(lines[0]!).text).toBe(`acme1_${id}.…`);
  });
});

test("a key in a line of a stack is cut too", () => {
  const { log, lines } = recorded();
  const err = new Error("x");
  err.stack = `Error: x\n    at ${key} (file.ts:1:1)`;
  log.error({ err }, "hi");
  expect(JSON.parse(lines[0]!).err.stack).toBe(`Error: x\n    at svc_${id}.… (file.ts:1:1)`);
});

test("bearer tokens and passwords in URLs are cut, whatever they look like", () => {
  const { log, lines } = recorded();
  log.info(
    { authorization: "Bearer abc.d-e_f~1", lower: "bearer\tabc", db: "mongodb://me:p%40ss@db/x" },
    "hi",
  );
  expect(JSON.parse(lines[0]!)).toMatchObject({
    authorization: "Bearer [redacted]",
    lower: "Bearer [redacted]",
    db: "mongodb://[redacted]@db/x",
  });
});

test("the service token is never printed, alone, in a URL or in an error", () => {
  const { log, lines } = recorded();
  log.error({ a: token, b: encodeURIComponent(token), err: new Error(`no ${token}`) }, token);
  expect(lines.join()).not.toContain("0".repeat(32));
  expect(JSON.parse(lines[0]!).msg).toBe("[redacted]");
});

test("whatever texts a record holds, its line is valid JSON and holds no complete key", () => {
  const text = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.constantFrom("Bearer ", "\n", '"', "\\", "://", "@", token, key),
  );
  const texts = fc.array(text, { maxLength: 8 }).map((parts) => parts.join(""));
  fc.assert(
    fc.property(texts, fc.dictionary(texts, texts, { maxKeys: 3 }), (message, fields) => {
      const { log, lines } = recorded();
      log.info({ fields }, "%s", message);
      expect(JSON.parse(lines[0]!).level).toBe("info");
      expect(lines[0]).not.toContain(tail);
      expect(lines[0]).not.toContain(token);
    }),
    { numRuns: 500 },
  );
});

test("a key that is cut, renamed or encoded is never logged, whatever part of a record holds it", () => {
  const { value } = createKeyForm("svc", createServiceSecrets([randomBytes(32)])).mint(randomBytes);
  const places: readonly ((text: string) => [Record<string, unknown>, string])[] = [
    (text) => [{ request: `GET /${text}` }, "hi"],
    (text) => [{ [text]: [{ url: `https://me:${text}@db/x` }] }, "hi"],
    (text) => [{ body: JSON.stringify(JSON.stringify({ text })) }, "hi"],
    (text) => [{ err: new Error("outer", { cause: new SyntaxError(`Unexpected token in ${text}`) }) }, "hi"],
    (text) => [{ cause: new AggregateError([Object.assign(new Error("x"), { details: text })]) }, "hi"],
    (text) => [{}, `the app failed: ${text}`],
  ];
  fc.assert(
    fc.property(mutatedKey(value), fc.constantFrom(...places), (text, place) => {
      const { log, lines } = recorded("trace");
      log.trace(...place(text));
      expect(lines).toHaveLength(1);
      expect(lines.filter((line) => tellsSecret(line, value))).toEqual([]);
    }),
    { numRuns: 2_000 },
  );
});

test("words that are not secret stay unchanged", () => {
  const redact = createRedaction("svc", []);
  const plain = "GET http://localhost:8080/api/apps/echo/run ada@example.com svc_ key_store.ts the bearer";
  expect(redact(plain)).toBe(plain);
  for (const { words } of Object.values(reasons)) expect(redact(words)).toBe(words);
  for (const bytes of [16, 20, 32]) {
    const trace = randomBytes(bytes).toString("hex");
    expect(redact(trace)).toBe(trace);
  }
  expect(redact("Bearer <the key>")).toBe("Bearer <the key>");
  expect(redact("Bearer <4bc>")).toBe("Bearer [redacted]");
});

test("a secret that becomes known later is cut from every later line", () => {
  const secrets: string[] = [];
  const lines: string[] = [];
  const log = createLog({ level: "info", secrets, destination: { write: (line) => void lines.push(line) } });
  const secret = "made-in-the-data-folder";
  secrets.push(secret);
  log.info({ requestId: secret }, "hi");
  expect(lines).toHaveLength(1);
  expect(lines[0]).not.toContain(secret);
});

test("a record below the level is never read", () => {
  const { log, lines } = recorded("warn");
  const record = {
    get expensive(): string {
      throw new Error("it was read");
    },
  };
  log.info(record, "hi");
  log.debug(record, "hi");
  expect(lines).toEqual([]);
});

test("lines go to standard error, with level, time and message, and nothing to standard output", () => {
  const script = `
    import { systemClock } from "#src/base/clock.ts";
    import { createLog } from "#src/log/log.ts";
    import { createLogOutput } from "#src/log/log-output.ts";
    const destination = createLogOutput({ clock: systemClock });
    createLog({ level: "info", destination }).info({ a: 1 }, "hi");`;
  const output = execFileSync("sh", [
    "-c",
    `"$0" --input-type=module -e '${script}' 2>&1 1>/dev/null`,
    process.execPath,
  ]);
  expect(JSON.parse(output.toString())).toEqual({
    level: "info",
    time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
    a: 1,
    msg: "hi",
  });
});
