import { startKeyrun } from "../start-keyrun.ts";
import { announce, appPlace } from "../subject.ts";

const { pid, port, internalPort, serviceToken, teams, keys, apps, stop } = await startKeyrun();

// Teams whose limits the load does not reach together.
const apiKeys: string[] = [];
for (let number = 1; number <= 8; number++) {
  const id = `team-${number}`;
  await teams.createTeam({ team: { id } });
  apiKeys.push((await keys.createKey({ teamId: id })).value);
}
if (appPlace !== "") {
  const kind: { case: "http"; value: { url: string } } | { case: "grpc"; value: { target: string } } =
    appPlace.startsWith("http")
      ? { case: "http", value: { url: appPlace } }
      : { case: "grpc", value: { target: appPlace } };
  await apps.createApp({ app: { id: "shout", backend: { kind } } });
}
announce({ port, internalPort, apiKeys, serviceToken, pid }, stop);
