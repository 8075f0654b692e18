// Keyrun with a quota for each plan, which the load does not reach.
import { announceKeyrun } from "../announce-keyrun.ts";

await announceKeyrun({ settings: { KEYRUN_PLAN_QUOTAS: "free=1000000000000/month" } });
