import type { InstanceFacts } from "#src/fleet/control-store.ts";
import { fleetProtocol } from "#src/fleet/who-may-join.ts";

/** What an instance says of itself. `facts` are the fields that matter to the test. */
export function instanceFactsOf(facts: Partial<InstanceFacts> = {}): InstanceFacts {
  return {
    protocol: fleetProtocol,
    alone: false,
    version: "0.0.0-test",
    schema: 7,
    secretVersions: ["0a1b2c3d"],
    serviceTokenMark: "0123456789abcdef",
    keyPrefix: "svc",
    address: "10.0.0.1:8081",
    ...facts,
  };
}
