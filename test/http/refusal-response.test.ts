import { expect, test } from "vitest";
import { refusalAnswer } from "#src/http/refusal-response.ts";
import { fail } from "#src/refusal/refusal.ts";

test.each(["application/grpc-web", "Application/Grpc-Web+Proto"])(
  "a gRPC-Web caller finds the status in the head, however it writes its type: %s",
  (contentType) => {
    const request = {
      requestId: "r-1",
      header: (name: string) => (name === "content-type" ? contentType : undefined),
    };
    const answer = refusalAnswer(fail("UNIMPLEMENTED"), request, { form: "grpc" });
    expect(answer.trailers).toBeUndefined();
    expect(answer.headers).toContain("grpc-status");
  },
);
