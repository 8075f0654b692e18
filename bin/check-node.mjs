// The first step of every npm script that runs TypeScript. Ends the script with a clear sentence if
// the Node that npm found is too old: such a Node would print a stack, or find no tests.
import { isNewEnough, refuseThisNode } from "./needed-node.mjs";

if (!isNewEnough(process.versions.node)) refuseThisNode();
