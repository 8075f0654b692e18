import { expect, test } from "vitest";
import { type RequestNotes, watchRequests } from "#src/http/request-notes.ts";

const head = { method: "GET", target: "/", httpVersion: "1.1", rawHeaders: [], peer: "127.0.0.1" };

test("an observer that throws stops neither the request nor the other observers", () => {
  const seen: string[] = [];
  const faults: unknown[] = [];
  const fault = new Error("the sampler broke");
  const broken = () => {
    throw fault;
  };
  const sound = {
    begun: ({ entry }: RequestNotes) => void seen.push(`begun ${entry}`),
    ended: (_: RequestNotes, status: number | undefined) => void seen.push(`ended ${status}`),
  };
  const watch = watchRequests([{ begun: broken, ended: broken }, sound], {
    monotonicMs: () => 5,
    onFault: (thrown) => void faults.push(thrown),
  });
  const notes = watch?.begun(head, "rest");
  expect(notes).toMatchObject({ head, begunMs: 5, entry: "rest" });
  if (notes) watch?.ended(notes, 200);
  expect(seen).toEqual(["begun rest", "ended 200"]);
  expect(faults).toEqual([fault, fault]);
});
