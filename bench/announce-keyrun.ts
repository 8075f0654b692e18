import { startKeyrun } from "./start-keyrun.ts";
import { announce, appPlace } from "./subject.ts";

/**
 * Serves as Keyrun, with eight teams whose limits the load does not reach together, and with the
 * question's app. `morePids` are processes whose costs count, too.
 */
export async function announceKeyrun({
  settings = {},
  morePids = [],
  stop = async () => {},
}: {
  readonly settings?: Readonly<Record<string, string>>;
  readonly morePids?: readonly number[];
  readonly stop?: () => Promise<void>;
} = {}): Promise<void> {
  const keyrun = await startKeyrun(settings);
  const { pid, port, internalPort, serviceToken, teams, keys, apps } = keyrun;
  const apiKeys: string[] = [];
  for (let number = 1; number <= 8; number++) {
    const id = `team-${number}`;
    await teams.createTeam({ team: { id } });
    apiKeys.push((await keys.createKey({ teamId: id })).value);
  }
  await apps.createApp({ app: { id: "guarded", backend: { kind: { case: "guard", value: {} } } } });
  if (appPlace !== "") {
    const kind: { case: "http"; value: { url: string } } | { case: "grpc"; value: { target: string } } =
      appPlace.startsWith("http")
        ? { case: "http", value: { url: appPlace } }
        : { case: "grpc", value: { target: appPlace } };
    await apps.createApp({ app: { id: "shout", backend: { kind } } });
  }
  announce({ port, internalPort, apiKeys, serviceToken, pid, morePids }, async () => {
    await keyrun.stop();
    await stop();
  });
}
