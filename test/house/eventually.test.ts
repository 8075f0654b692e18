import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Code, ConnectError } from "@connectrpc/connect";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { RetryInfoSchema } from "#gen/google/rpc/error_details_pb.ts";
import { tempFolders } from "../harness/closed-at-end.ts";
import {
  eventually,
  Undecided,
  unlessStalled,
  whileAnswer,
  whileBusy,
  whileDisturbed,
} from "../harness/eventually.ts";

const folders = tempFolders();

let repeats = "";

// These repeats are not the run's.
beforeEach(() => {
  repeats = join(folders.create(), "repeats");
  vi.stubEnv("KEYRUN_TEST_REPEATS", repeats);
});
afterEach(() => vi.unstubAllEnvs());

/** An attempt that ends like this, one after the other, and the last one for ever. */
function attempts(...outcomes: (() => unknown)[]) {
  let made = 0;
  const attempt = async () => outcomes[Math.min(made++, outcomes.length - 1)]!();
  return { attempt, made: () => made };
}

const thrown = (error: Error) => () => {
  throw error;
};

const busy = () => {
  const details = [{ desc: RetryInfoSchema, value: {} }];
  return thrown(new ConnectError("busy", Code.Unavailable, undefined, details));
};

const quick = { pauseMs: 0 };

test("what proves nothing is repeated, and each repeat is counted; the first answer is returned", async () => {
  const { attempt, made } = attempts(busy(), busy(), () => "done");
  expect(await eventually(attempt, { ...whileBusy, ...quick })).toBe("done");
  expect(made()).toBe(3);
  expect(readFileSync(repeats, "utf8")).toBe("..");
});

test("any other failure is thrown at once", async () => {
  for (const error of [new Error("wrong"), new ConnectError("cut off", Code.Unavailable)]) {
    const { attempt, made } = attempts(thrown(error));
    await expect(eventually(attempt, { ...whileBusy, ...quick })).rejects.toBe(error);
    expect(made()).toBe(1);
  }
});

test("what never proves anything is undecided, with the words of the last attempt", async () => {
  const { attempt, made } = attempts(() => 503);
  const repeating = { ...whileAnswer((status) => status === 503), ...quick, triesMax: 4 };
  const end = await eventually(attempt, repeating).then(
    () => new Error("it was decided"),
    (error: Error) => error,
  );
  expect(end).toBeInstanceOf(Undecided);
  expect(end.message).toBe("4 attempts proved nothing, the last one: 503");
  expect(made()).toBe(4);
});

test("a story that fails is told again only if it was disturbed", async () => {
  let disturbances = 0;
  const disturbed = () => {
    disturbances += 1;
    throw new Error("disturbed");
  };
  const { attempt, made } = attempts(disturbed, () => "told");
  expect(
    await eventually(
      attempt,
      whileDisturbed(() => disturbances),
    ),
  ).toBe("told");
  expect(made()).toBe(2);
  // The disturbance of before is no excuse.
  const failing = attempts(thrown(new Error("wrong")));
  await expect(
    eventually(
      failing.attempt,
      whileDisturbed(() => disturbances),
    ),
  ).rejects.toThrow("wrong");
  expect(failing.made()).toBe(1);
});

test("work that fails while the event loop stands still is done again", async () => {
  const stallingOnce = attempts(
    () => {
      const endMs = performance.now() + 60;
      while (performance.now() < endMs);
      throw new Error("late");
    },
    () => "done",
  );
  expect(await unlessStalled(30, stallingOnce.attempt)).toBe("done");
  const wrong = attempts(thrown(new Error("wrong")));
  await expect(unlessStalled(30_000, wrong.attempt)).rejects.toThrow("wrong");
  expect(wrong.made()).toBe(1);
});
