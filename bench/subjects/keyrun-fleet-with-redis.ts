import { announceFleet } from "../announce-fleet.ts";

await announceFleet({ withRedis: true });
