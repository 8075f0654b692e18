// Keyrun once more: this one is asked as a guard.
import { announceKeyrun } from "../announce-keyrun.ts";

await announceKeyrun();
