import { announceKeyrun } from "../announce-keyrun.ts";

await announceKeyrun();
