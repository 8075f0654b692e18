import { useQuery } from "@connectrpc/connect-query";
import { AppService, type RunnableApp } from "#gen/keyrun/v1/app_service_pb.ts";
import { bounds } from "../bounds.ts";

const builtIn = "echo";

/** The first apps that the team may run, by id, and the one to begin with; no apps while they are read. */
export function useRunnableApps(teamId: string): { apps: RunnableApp[]; first: string } {
  const query = useQuery(AppService.method.listRunnableApps, { teamId, pageSize: bounds.appsPageSize });
  const apps = query.data?.apps ?? [];
  const first = apps.find((app) => app.id === builtIn) ?? apps[0];
  return { apps, first: first?.id ?? builtIn };
}
