import { expect, test } from "vitest";
import { AppService } from "#gen/keyrun/v1/app_service_pb.ts";
import { bounds } from "#src/bounds.ts";
import { rpcsOf, runMsMax } from "#src/rpc/served.ts";

test("the calls of a service have the usual time, and those of the methods that run an app have more", () => {
  const { checkApp, createApp } = AppService.method;
  const service = { service: AppService, implementation: {} };
  const runs = { unaryMsMax: runMsMax };
  const [usual, some, all] = [{}, { times: { ...runs, only: [checkApp] } }, { times: runs }].map((times) => {
    const rpcs = rpcsOf([{ ...service, ...times }]);
    return [checkApp, createApp].map((method) => rpcs.find((rpc) => rpc.method === method)?.unaryMsMax);
  });
  expect(usual).toEqual([bounds.unaryMsMax, bounds.unaryMsMax]);
  expect(some).toEqual([runMsMax, bounds.unaryMsMax]);
  expect(all).toEqual([runMsMax, runMsMax]);
});
