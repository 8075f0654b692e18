import { expect, test } from "vitest";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { bounds } from "#src/bounds.ts";
import { runMsMax, unaryMsMaxOf } from "#src/rpc/served.ts";

test("the calls of a service have the usual time, and those of the methods that run an app have more", () => {
  const { checkApp, createApp } = AppService.method;
  const service = { service: AppService, implementation: {} };
  const timed = { ...service, times: { unaryMsMax: runMsMax, only: [checkApp] } };
  expect([unaryMsMaxOf(service, checkApp), unaryMsMaxOf(timed, createApp)]).toEqual([
    bounds.unaryMsMax,
    bounds.unaryMsMax,
  ]);
  expect(unaryMsMaxOf(timed, checkApp)).toBe(runMsMax);
  expect(unaryMsMaxOf({ ...service, times: { unaryMsMax: runMsMax } }, createApp)).toBe(runMsMax);
});
