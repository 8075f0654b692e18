// Where npm brought no Node that starts, bin/node.sh runs this before a script in TypeScript. It
// ends it with a clear sentence if the PATH's Node is too old: that would print a stack, or find
// no tests.
import { isNewEnough, refuseThisNode } from "./needed-node.mjs";

if (!isNewEnough(process.versions.node)) refuseThisNode();
