// The first step of every npm script that runs TypeScript: ends it in a sentence where the Node that npm found is too
// old for that, and would tell so by a stack or by finding no tests.
import { isNewEnough, refuseThisNode } from "./needed-node.mjs";

if (!isNewEnough) refuseThisNode();
