import { context, trace } from "@opentelemetry/api";
import { NodeSDK, tracing } from "@opentelemetry/sdk-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readBackend } from "#src/apps/app-fields.ts";
import { fail, Refusal } from "#src/refusal/refusal.ts";
import type { StreamPiece } from "#src/run/runner.ts";
import { traceRuns, traceStreams } from "#src/traces/app-spans.ts";
import { inWorkSpan } from "#src/traces/work-span.ts";
import { appOn, openAppRunner, runOf } from "../harness/app-backends.ts";

type Place = "the sampler" | "the start of a span" | "the end of a span";

/** Code of an operator that throws at this place, in every span but that of the request. */
let throwsAt: Place | undefined;
const at = (place: Place) => {
  if (throwsAt === place) throw new Error(`thrown by ${place}`);
};
const sdk = new NodeSDK({
  autoDetectResources: false,
  sampler: {
    shouldSample: () => {
      at("the sampler");
      return { decision: tracing.SamplingDecision.RECORD_AND_SAMPLED };
    },
  },
  spanProcessors: [
    {
      onStart: () => at("the start of a span"),
      onEnd: () => at("the end of a span"),
      forceFlush: async () => {},
      shutdown: async () => {},
    },
  ],
});
const tracer = trace.getTracer("test");
const { traceOf } = openAppRunner();

beforeAll(() => sdk.start());
afterAll(() => sdk.shutdown());

const order = runOf(
  appOn(
    readBackend(
      {
        $typeName: "keyrun.v1.AppBackend",
        kind: { case: "grpc", value: { $typeName: "keyrun.v1.GrpcBackend", target: "a:1", tls: false } },
      },
      undefined,
    ),
  ),
);
const refused = () => fail("UNAVAILABLE");
const span = { name: "find keys", attributes: {} };

async function* pieces() {
  yield "a";
  yield "b";
}

async function* refusedPieces() {
  yield await Promise.reject<string>(refused());
}

async function textOf(stream: AsyncIterable<StreamPiece>): Promise<string> {
  let text = "";
  for await (const piece of stream) text += String(piece);
  return text;
}

async function outcomeOf(work: () => unknown): Promise<unknown> {
  try {
    return await work();
  } catch (thrown) {
    return thrown instanceof Refusal ? thrown.reason : thrown;
  }
}

const works: readonly [string, () => unknown, unknown][] = [
  ["a call of the store", () => inWorkSpan(tracer, span, () => Promise.resolve("x")), "x"],
  ["a refused call", () => inWorkSpan(tracer, span, () => Promise.reject(refused())), "UNAVAILABLE"],
  ["a run", () => traceRuns({ run: async () => ({ text: "x" }), traceOf }, tracer)(order), { text: "x" }],
  [
    "a refused run",
    () => traceRuns({ run: () => Promise.reject(refused()), traceOf }, tracer)(order),
    "UNAVAILABLE",
  ],
  ["a stream", () => textOf(traceStreams({ stream: pieces, traceOf }, tracer)(order)), "ab"],
  [
    "a refused stream",
    () => textOf(traceStreams({ stream: refusedPieces, traceOf }, tracer)(order)),
    "UNAVAILABLE",
  ],
];

describe.each(["the sampler", "the start of a span", "the end of a span"] as const)(
  "an operator's code that throws at %s",
  (place) => {
    test.each(works)("fails no request: %s", async (_, work, outcome) => {
      throwsAt = undefined;
      const request = trace.setSpan(context.active(), tracer.startSpan("request", { root: true }));
      throwsAt = place;
      expect(await context.with(request, () => outcomeOf(work))).toEqual(outcome);
      throwsAt = undefined;
    });
  },
);
