import { runCli } from "./cli/cli.ts";

// The server is loaded by its own command alone: the other commands are its clients, and start
// faster without it.
process.exitCode = await runCli(process.argv.slice(2), {
  serve: async () => (await import("./serve.ts")).serve(),
});
