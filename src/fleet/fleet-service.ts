import type { FleetService } from "#gen/keyrun/v1/fleet_service_pb.ts";
import type { ServiceMethods } from "../auth/principal.ts";
import { fail } from "../refusal/refusal.ts";

/** `nudged` is called with each nudge of another instance; undefined where there is no fleet. */
export function createFleetService(nudged: (() => void) | undefined): ServiceMethods<typeof FleetService> {
  return {
    nudge() {
      if (!nudged) throw fail("UNIMPLEMENTED");
      nudged();
      return {};
    },
  };
}
