import type { Plugin } from "vite";

/**
 * Lets the bundler drop the enums of libraries that nothing uses, of which Protobuf's describe Protobuf itself. They
 * are compiled to a function that is called for what it does to a variable, which the bundler must keep; here it is
 * called for what it returns.
 */
export function unusedEnums(): Plugin {
  return {
    name: "unused-enums",
    apply: "build",
    transform: {
      filter: { id: /\/node_modules\/@(bufbuild|connectrpc)\// },
      handler: (code) => ({
        code: code.replace(
          /export var (\w+);\s*(\/\*\*(?:(?!\*\/).)*\*\/)?\s*\(function \(\1\) \{(.*?)\n\}\)\(\1 \|\| \(\1 = \{\}\)\);/gs,
          "export const $1 = /* @__PURE__ */ (function ($1) {$3\nreturn $1;\n})({});",
        ),
        map: null,
      }),
    },
  };
}
