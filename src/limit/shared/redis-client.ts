import { createClient } from "redis";

export type RedisClient = ReturnType<typeof createRedisClient>;

/** Its own queues, retries and timeouts are off: a call is bounded by its caller. */
export function createRedisClient({
  redisUrl,
  openMsMax,
}: {
  /** May hold a password, so it never appears in a message. */
  readonly redisUrl: string;
  readonly openMsMax: number;
}) {
  return createClient({
    url: redisUrl,
    RESP: 2,
    maintNotifications: "disabled",
    disableClientInfo: true,
    disableOfflineQueue: true,
    socket: { connectTimeout: openMsMax, reconnectStrategy: false },
  });
}
