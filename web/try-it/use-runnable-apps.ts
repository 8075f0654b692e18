import type { RunnableApp } from "#gen/keyrun/v1/app_service_pb.ts";
import { rpcs } from "../api/rpcs.ts";
import { bounds } from "../bounds.ts";
import { useRpc } from "../use-rpc.ts";

const builtIn = "echo";

/**
 * The first page of the apps that the team may run, by id, and the one to choose at first. No apps
 * while they are loading.
 */
export function useRunnableApps(teamId: string): { apps: RunnableApp[]; first: string } {
  const query = useRpc(rpcs.listRunnableApps, { teamId, pageSize: bounds.appsPageSize });
  const apps = query.data?.apps ?? [];
  const first = apps.find((app) => app.id === builtIn) ?? apps[0];
  return { apps, first: first?.id ?? builtIn };
}
