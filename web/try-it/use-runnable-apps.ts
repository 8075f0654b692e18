import type { RunnableApp } from "../api/messages.ts";
import { rpcs } from "../api/rpcs.ts";
import { bounds } from "../bounds.ts";
import { useRpc } from "../use-rpc.ts";

const builtIn = "echo";

interface RunnableApps {
  /** The first page of the apps that the team may run, by id. */
  readonly apps: readonly RunnableApp[];
  /** The id of the app to choose at first. */
  readonly first: string;
  /** True once the apps are read: then a team without any has none. */
  readonly known: boolean;
  readonly failed: boolean;
}

export function useRunnableApps(teamId: string): RunnableApps {
  const { data, isError } = useRpc(rpcs.listRunnableApps, { teamId, pageSize: bounds.appsPageSize });
  const apps = data?.apps ?? [];
  const first = apps.find((app) => app.id === builtIn) ?? apps[0];
  return { apps, first: first?.id ?? builtIn, known: data !== undefined, failed: isError };
}
