import { memoryControlStore } from "../harness/memory-control-store.ts";
import { controlStoreContract } from "./control-store.ts";

controlStoreContract("memory", async () => {
  const control = memoryControlStore();
  // All processes of a test share the one document.
  return [control, control, control, control, control, control, control, control];
});
